"""The status of an MCP object: Available (its pods), Responding (the handshake) and Ready (both)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core import names
from modelyard.core.conditions import Truth
from modelyard.core.resources import DEPLOYMENT
from modelyard.kinds.contract import Owned
from modelyard.kinds.mcp.api import McpStatus, ServerReport
from modelyard.kinds.mcp.reads import handshake, service_name, tls_secret
from modelyard.kinds.shared import autoscale, readiness, workloads

if TYPE_CHECKING:
    from modelyard.core.checks import Answer
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.mcp.api import McpSpec


def summarise(mcp: Object[McpSpec], seen: Seen, outcome: Outcome) -> McpStatus:
    """Return the status of one MCP object."""
    rollout = workloads.read_rollout(seen.one(Owned(DEPLOYMENT)))
    question = handshake(mcp, seen)
    answer = (seen.answer(question) or last_answer(mcp, rollout.template)) if question else None
    pods = readiness.available(seen, rollout, mcp.spec.resources)
    asked = question is not None
    hello = readiness.answered("Responding", answer, asked=asked, asking="the handshake is in progress")
    ready = readiness.overall(outcome, rollout, pods, hello, "all pods are ready and the server responds")
    said = answer.value if answer and answer.ok else {}
    return McpStatus(
        ready=ready.status is Truth.TRUE,
        url=url(mcp),
        replicas=rollout.wanted,
        ready_replicas=rollout.ready,
        server=report(said) if said else None,
        tool_count=said.get("toolCount", 0),
        tools=tuple(said.get("tools", ())),
        checked_template=rollout.template if answer else "",
        conditions=(pods, hello, ready, *autoscale.conditions(mcp.before, seen)),
    )


def report(said: dict[str, Any]) -> ServerReport:
    """Return what a server reported in the handshake."""
    return ServerReport(*(str(said.get(field, "")) for field in ("name", "version", "protocolVersion")))


def last_answer(mcp: Object[McpSpec], template: str) -> Answer | None:
    """Return the answer in the stored status; None: it is of another pod template, or there is none."""
    told = mcp.before.get("server") or {}
    tools = {"toolCount": mcp.before.get("toolCount", 0), "tools": mcp.before.get("tools", [])}
    return readiness.stored_answer(mcp.before, "Responding", template, {**told, **tools} if told else {})


def url(mcp: Object[McpSpec]) -> str:
    """Return the URL of the server inside the cluster."""
    scheme = "https" if tls_secret(mcp.spec) else "http"
    server, meta = mcp.spec.server, mcp.meta
    host = names.service_host(service_name(meta.name), meta.namespace)
    return f"{scheme}://{host}:{server.port}{server.path}"
