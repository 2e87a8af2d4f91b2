"""The keys of Secrets and ConfigMaps that a Gateway names: where, whether they are there, and whether they matter.

Pure. Only what the spec switches on is read. `shared/config_refs` turns the values into the hash that restarts pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.core.resources import CONFIG_MAP, SECRET
from modelyard.kinds.shared.config_refs import ConfigRef, env_refs
from modelyard.kinds.shared.gateway_refs import CERTIFICATE, TLS_SECRET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modelyard.kinds.contract import Seen
    from modelyard.kinds.gateway.api import GatewaySpec

Json = dict[str, Any]

PRIVATE_KEY: Final = "tls.key"


class Source(Struct, frozen=True):
    """A key of a Secret or ConfigMap, and the field that names it."""

    ref: ConfigRef
    field: str
    optional: bool = False


def has_value(variable: Json, seen: Seen) -> bool:
    """Return whether a variable has a value: a literal one, or a key that exists and is not empty."""
    if not variable.get("valueFrom"):
        return bool(variable.get("value"))
    return all(ref.value(seen) for ref in env_refs([variable]))


def certificate_ref(spec: GatewaySpec) -> ConfigRef:
    """Return the key that holds the certificate of the server."""
    return _secret_ref(spec.server.tls.certificate_ref, TLS_SECRET, CERTIFICATE)


def private_key_ref(spec: GatewaySpec) -> ConfigRef:
    """Return the key that holds the private key of the server."""
    return _secret_ref(spec.server.tls.key_ref, certificate_ref(spec).name, PRIVATE_KEY)


def sources(spec: GatewaySpec) -> Iterator[Source]:
    """Return every key that the spec names and that is in use."""
    if spec.server.tls.enabled:
        yield Source(certificate_ref(spec), "spec.server.tls.certificateRef")
        yield Source(private_key_ref(spec), "spec.server.tls.keyRef")
    yield from _auth_sources(spec)
    if spec.routing.enabled and (ref := spec.routing.config_map_ref):
        yield Source(_config_map_ref(ref), "spec.routing.configMapRef")
    if spec.guardrails.enabled and (name := spec.guardrails.config_map_ref.name):
        yield Source(ConfigRef(CONFIG_MAP.kind, name), "spec.guardrails.configMapRef")
    for provider in spec.providers:
        if provider.enabled:
            yield from _env_sources(provider.env)


def _auth_sources(spec: GatewaySpec) -> Iterator[Source]:
    if not spec.auth.enabled:
        return
    if ref := spec.auth.oidc.client_secret_ref:
        found = ConfigRef(SECRET.kind, str(ref.get("name", "")), str(ref["key"]))
        yield Source(found, "spec.auth.oidc.clientSecretRef", bool(ref.get("optional")))
    if ref := spec.auth.oidc.ca_cert_ref:
        yield Source(_config_map_ref(ref), "spec.auth.oidc.caCertRef")


def _env_sources(env: Iterable[Json]) -> Iterator[Source]:
    for entry in env:
        selectors = (entry.get("valueFrom") or {}).values()
        optional = any(isinstance(one, dict) and one.get("optional") for one in selectors)
        for ref in env_refs([entry]):
            yield Source(ref, "spec.providers", optional)


def find_problem(found: Iterable[Source], seen: Seen) -> Problem | None:
    """Return what is wrong with the first source that cannot be used; None: all are there."""
    return next((problem for one in found if not one.optional and (problem := _problem_of(one, seen))), None)


def _problem_of(source: Source, seen: Seen) -> Problem | None:
    ref, is_secret = source.ref, source.ref.kind == SECRET.kind
    if seen.one(ref.read) is None:
        reason = Reason.SECRET_NOT_FOUND if is_secret else Reason.CONFIG_MAP_NOT_FOUND
        return Problem(
            reason,
            f"the {ref.kind} {ref.name} named by {source.field} does not exist in this namespace",
            f"create it with the key {ref.key}" if ref.key else "create it, or name another",
        )
    if not ref.key or ref.value(seen):
        return None
    reason = Reason.SECRET_KEY_MISSING if is_secret else Reason.CONFIG_MAP_KEY_MISSING
    return Problem(
        reason,
        f"the {ref.kind} {ref.name} named by {source.field} lacks {ref.key}, or it is empty there",
        "add the key, or name another",
    )


def _secret_ref(selector: Json | None, name: str, key: str) -> ConfigRef:
    given = selector or {}
    return ConfigRef(SECRET.kind, str(given.get("name") or name), str(given.get("key") or key))


def _config_map_ref(selector: Json) -> ConfigRef:
    return ConfigRef(CONFIG_MAP.kind, str(selector.get("name", "")), str(selector["key"]))
