"""The validation rules of a Gateway, for what the types of its fields cannot say.

Most of them refuse what the image would take and then serve otherwise than asked, or not at all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from modelyard.kinds.contract import Rule
from modelyard.kinds.gateway.providers import KNOWN, SELECTED
from modelyard.kinds.shared import autoscale
from modelyard.kinds.shared.discovery import selector_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.kinds.gateway.api import GatewaySpec
    from modelyard.kinds.gateway.blocks import Provider

NAME_LIMIT: Final = 56
"""The Service of the models is called `<name>-models`, and Service names end at 63 characters."""
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

_NAME_RULE = Rule(
    cel=f"self.metadata.name.matches('^{_NAME.pattern}$') && size(self.metadata.name) <= {NAME_LIMIT}",
    message=f"metadata.name must begin with a letter, hold only a-z, 0-9 and '-', and have at most {NAME_LIMIT} "
    "characters, because Services are called <name> and <name>-models",
    field="metadata.name",
    holds=lambda _, meta: len(meta.name) <= NAME_LIMIT and _NAME.fullmatch(meta.name) is not None,
    at="",
)

_HOST_RULE = Rule(
    cel="!self.startsWith('127.') && !(self in ['localhost', '::1'])",
    message="spec.server.host must not be loopback: neither probes nor the Service would reach the gateway",
    field="spec.server.host",
    holds=lambda spec, _: not spec.server.host.startswith("127.") and spec.server.host not in ("localhost", "::1"),
)

_AUTH_RULE = Rule(
    cel="!has(self.enabled) || !self.enabled || self.provider == 'oidc'",
    message="spec.auth.provider must be oidc: the gateway knows no other, and would let everyone in",
    field="spec.auth.provider",
    holds=lambda spec, _: not spec.auth.enabled or spec.auth.provider == "oidc",
    at="spec.auth",
)

_PORTS_RULE = Rule(
    cel="!has(self.telemetry) || !has(self.telemetry.enabled) || !self.telemetry.enabled || "
    "!has(self.telemetry.metrics) || !has(self.telemetry.metrics.port) || "
    "((!has(self.server) || !has(self.server.port) || self.telemetry.metrics.port != self.server.port) && "
    "(!has(self.service) || !has(self.service.port) || self.telemetry.metrics.port != self.service.port))",
    message="spec.telemetry.metrics.port must be another port than spec.server.port and spec.service.port",
    field="spec.telemetry.metrics.port",
    holds=lambda spec, _: (
        not spec.telemetry.enabled or spec.telemetry.metrics.port not in (spec.server.port, spec.service.port)
    ),
    at="spec",
)

_ROUTING_RULE = Rule(
    cel="!has(self.enabled) || !self.enabled || ((has(self.config) && self.config != '') != has(self.configMapRef))",
    message="spec.routing needs either config or configMapRef while it is enabled, and not both",
    field="spec.routing",
    holds=lambda spec, _: (
        not spec.routing.enabled or bool(spec.routing.config) != (spec.routing.config_map_ref is not None)
    ),
)

_GUARDRAILS_RULE = Rule(
    cel="!has(self.enabled) || !self.enabled || (has(self.externalUrl) && self.externalUrl != '') || "
    "(has(self.configMapRef) && has(self.configMapRef.name) && self.configMapRef.name != '')",
    message="spec.guardrails needs configMapRef.name or externalUrl while it is enabled: without, nothing is checked",
    field="spec.guardrails",
    holds=lambda spec, _: (
        not spec.guardrails.enabled or bool(spec.guardrails.external_url or spec.guardrails.config_map_ref.name)
    ),
)

_INGRESS_RULE = Rule(
    cel="!has(self.enabled) || !self.enabled || "
    "((has(self.host) && self.host != '') != (has(self.hosts) && size(self.hosts) > 0))",
    message="spec.ingress needs either host or hosts while it is enabled, and not both",
    field="spec.ingress",
    holds=lambda spec, _: not spec.ingress.enabled or bool(spec.ingress.host) != bool(spec.ingress.hosts),
)

_REFERENCE_RULE = Rule(
    cel=f"self.all(p, !has(p.serviceRef) || p.name.lowerAscii() in {sorted(KNOWN)})",
    message="spec.providers with a serviceRef must be called like a provider of the gateway, such as llamacpp",
    field="spec.providers",
    holds=lambda spec, _: all(one.name.lower() in KNOWN for one in spec.providers if one.service_ref),
)

_UNIQUE_RULE = Rule(
    cel="self.all(p, !has(p.serviceRef) || !p.enabled || "
    "self.filter(q, q.enabled && q.name.lowerAscii() == p.name.lowerAscii()).size() == 1)",
    message="spec.providers with a serviceRef must have a name of their own: a provider has one URL",
    field="spec.providers",
    holds=lambda spec, _: all(len(_alike(spec, one)) == 1 for one in _enabled(spec) if one.service_ref),
)

_SELECTOR_RULE = Rule(
    cel="!has(self.serviceSelector) || !has(self.providers) || "
    f"!self.providers.exists(p, p.enabled && p.name.lowerAscii() == '{SELECTED}')",
    message=f"spec.serviceSelector takes the place of the provider {SELECTED}: remove that one, or the selector",
    field="spec.serviceSelector",
    holds=lambda spec, _: spec.service_selector is None or all(one.name.lower() != SELECTED for one in _enabled(spec)),
    at="spec",
)


def _named_rule(block: str, name: str, ref_of: Callable[[GatewaySpec], dict[str, Any] | None]) -> Rule:
    """Return the rule that a reference to a key names its object: Kubernetes lets the name be empty."""
    return Rule(
        cel=f"!has(self.{name}) || (has(self.{name}.name) && self.{name}.name != '')",
        message=f"{block}.{name}.name must name the object that holds the key",
        field=f"{block}.{name}",
        holds=lambda spec, _: (ref := ref_of(spec)) is None or bool(ref.get("name")),
        at=block,
    )


def _needed_rule(block: str, name: str, ref_of: Callable[[GatewaySpec], dict[str, Any] | None]) -> Rule:
    """Return the rule that a reference to a file is not optional: without the file, the gateway would not start."""
    return Rule(
        cel=f"!has(self.{name}) || !has(self.{name}.optional) || !self.{name}.optional",
        message=f"{block}.{name} cannot be optional: the gateway does not start without it; remove `optional`",
        field=f"{block}.{name}",
        holds=lambda spec, _: not (ref_of(spec) or {}).get("optional"),
        at=block,
    )


def _enabled(spec: GatewaySpec) -> list[Provider]:
    return [one for one in spec.providers if one.enabled]


def _alike(spec: GatewaySpec, provider: Provider) -> list[Provider]:
    return [one for one in _enabled(spec) if one.name.lower() == provider.name.lower()]


RULES = (
    _NAME_RULE,
    _HOST_RULE,
    _AUTH_RULE,
    _PORTS_RULE,
    _ROUTING_RULE,
    _GUARDRAILS_RULE,
    _INGRESS_RULE,
    _REFERENCE_RULE,
    _UNIQUE_RULE,
    _SELECTOR_RULE,
    _named_rule("spec.auth.oidc", "clientSecretRef", lambda spec: spec.auth.oidc.client_secret_ref),
    _named_rule("spec.auth.oidc", "caCertRef", lambda spec: spec.auth.oidc.ca_cert_ref),
    _named_rule("spec.routing", "configMapRef", lambda spec: spec.routing.config_map_ref),
    _needed_rule("spec.server.tls", "certificateRef", lambda spec: spec.server.tls.certificate_ref),
    _needed_rule("spec.server.tls", "keyRef", lambda spec: spec.server.tls.key_ref),
    _needed_rule("spec.auth.oidc", "caCertRef", lambda spec: spec.auth.oidc.ca_cert_ref),
    _needed_rule("spec.routing", "configMapRef", lambda spec: spec.routing.config_map_ref),
    selector_rule("spec.serviceSelector", lambda spec: spec.service_selector),
    selector_rule(
        "spec.mcp.serviceDiscovery.selector",
        lambda spec: found.selector if (found := spec.mcp.service_discovery) else None,
    ),
    *autoscale.RULES,
)
