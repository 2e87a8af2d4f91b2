"""The reads of an MCP object: its children, what its spec names, and the handshake with its server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.checks.mcp_handshake import McpHandshake
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.quantities import seconds
from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, POD, SECRET, SERVICE
from modelyard.kinds.contract import Asked, Named, Owned
from modelyard.kinds.shared import workloads
from modelyard.kinds.shared.config_refs import ConfigRef, env_from_refs, env_refs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.mcp.api import McpSpec


def tls_secret(spec: McpSpec) -> str:
    """Return the name of the Secret with the certificate of the server; empty: plain HTTP."""
    tls = spec.server.tls
    return tls.secret_name if tls and tls.enabled else ""


def service_name(name: str) -> str:
    """Return the name of the Service of an MCP object."""
    return f"{name}-service"


def reads(mcp: Object[McpSpec], seen: Seen) -> Iterator[Read]:
    """Name everything that plan and status depend on."""
    yield Owned(DEPLOYMENT)
    yield Owned(SERVICE)
    yield Owned(AUTOSCALER)
    yield Owned(POD)
    if secret := tls_secret(mcp.spec):
        yield Named(SECRET, secret)
    yield from (ref.read for ref in config_refs(mcp.spec))
    if question := handshake(mcp, seen):
        yield question


def config_refs(spec: McpSpec) -> Iterator[ConfigRef]:
    """Return all keys of Secrets and ConfigMaps that become environment variables."""
    yield from env_refs(spec.env)
    yield from env_from_refs(spec.env_from)


def checked_template(mcp: Object[McpSpec]) -> str:
    """Return the fingerprint of the pod template that the stored handshake was made with; empty: there was none."""
    return str(mcp.before.get("checkedTemplate", ""))


def handshake(mcp: Object[McpSpec], seen: Seen) -> Asked | None:
    """Return the check of the server; None: pods of an older template, or none, would answer it."""
    rollout = workloads.read_rollout(seen.one(Owned(DEPLOYMENT)))
    if not rollout.answers_for(checked_template(mcp)):
        return None
    server, service = mcp.spec.server, seen.one(Owned(SERVICE))
    ip = str(service.spec.get("clusterIP", "")) if service else ""
    return Asked(
        McpHandshake(
            service=ServiceAddress(mcp.meta.namespace, service_name(mcp.meta.name), server.port, ip),
            path=server.path,
            timeout=seconds(server.timeout),
            template=rollout.template,
            trust=tls_secret(mcp.spec),
        )
    )
