"""The validation rules of an Orchestrator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.quantities import seconds
from modelyard.kinds.contract import Rule
from modelyard.kinds.shared.discovery import selector_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.core.objects import Json
    from modelyard.kinds.orchestrator.api import OrchestratorSpec

NAME_LIMIT = 54
"""The Service of the receiver is called `<name>-receiver`, and Service names end at 63 characters."""

_NAME_RULE = Rule(
    cel=f"self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= {NAME_LIMIT}",
    message=f"metadata.name must begin with a letter, hold only a-z, 0-9 and '-', and have at most {NAME_LIMIT} "
    "characters, because a Service is called <name>-receiver",
    field="metadata.name",
    holds=lambda _, meta: len(meta.name) <= NAME_LIMIT and "." not in meta.name and meta.name[:1].isalpha(),
    at="",
)
_POLL_RULE = Rule(
    cel="self == '' || (duration(self) >= duration('1s') && duration(self) <= duration('10m'))",
    message="spec.channels.telegram.pollTimeout must be 1s to 10m: Telegram counts whole seconds",
    field="spec.channels.telegram.pollTimeout",
    holds=lambda spec, _: _polls_in_bounds(spec.channels.telegram.poll_timeout),
)
_GATEWAY_RULE = Rule(
    cel="(has(self.url) && self.url != '') != has(self.gatewayRef)",
    message="spec.gateway needs either url or gatewayRef, and not both",
    field="spec.gateway.url",
    holds=lambda spec, _: bool(spec.gateway.url) != (spec.gateway.gateway_ref is not None),
    at="spec.gateway",
)


def _polls_in_bounds(timeout: str) -> bool:
    return timeout == "" or 1 <= seconds(timeout) <= 600


def _named(field: str, selector_of: Callable[[OrchestratorSpec], Json | None]) -> Rule:
    """Return the rule that the reference to a key at a field names its Secret."""
    return Rule(
        cel="has(self.name) && self.name != ''",
        message=f"{field}.name must name the Secret",
        field=f"{field}.name",
        holds=lambda spec, _: (found := selector_of(spec)) is None or bool(found.get("name")),
        at=field,
    )


_TOKEN_RULE = Rule(
    cel="!has(self.optional) || !self.optional",
    message="spec.channels.telegram.tokenSecretRef cannot be optional: without a token the bot listens to nothing; "
    "remove `optional`",
    field="spec.channels.telegram.tokenSecretRef",
    holds=lambda spec, _: not spec.channels.telegram.token_secret_ref.get("optional"),
)

RULES = (
    _NAME_RULE,
    _POLL_RULE,
    _GATEWAY_RULE,
    _TOKEN_RULE,
    _named("spec.channels.telegram.tokenSecretRef", lambda spec: spec.channels.telegram.token_secret_ref),
    _named(
        "spec.channels.telegram.allowedUsersSecretRef", lambda spec: spec.channels.telegram.allowed_users_secret_ref
    ),
    _named("spec.gateway.apiKeySecretRef", lambda spec: spec.gateway.api_key_secret_ref),
    selector_rule(
        "spec.a2a.serviceDiscovery.selector",
        lambda spec: found.selector if (found := spec.a2a.service_discovery) else None,
    ),
    selector_rule(
        "spec.mcp.serviceDiscovery.selector",
        lambda spec: found.selector if (found := spec.mcp.service_discovery) else None,
    ),
)
