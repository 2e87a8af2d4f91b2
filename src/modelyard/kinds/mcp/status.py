"""The status of an MCP object: Available (its pods), Responding (the handshake) and Ready (both)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core import names
from modelyard.core.checks import Answer
from modelyard.core.conditions import Condition, Truth, condition, failing, stored_condition
from modelyard.core.reasons import Reason
from modelyard.core.resources import DEPLOYMENT, POD
from modelyard.kinds.contract import Owned
from modelyard.kinds.mcp.api import McpStatus, ServerReport
from modelyard.kinds.mcp.reads import checked_template, handshake, service_name, tls_secret
from modelyard.kinds.shared import autoscale, pod_problems, workloads

if TYPE_CHECKING:
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.mcp.api import McpSpec


def summarise(mcp: Object[McpSpec], seen: Seen, outcome: Outcome) -> McpStatus:
    """Return the status of one MCP object."""
    rollout = workloads.read_rollout(seen.one(Owned(DEPLOYMENT)))
    question = handshake(mcp, seen)
    answer = (seen.answer(question) or last_answer(mcp, rollout.template)) if question else None
    pods = available(mcp, seen, rollout)
    hello = responding(answer, asked=question is not None)
    ready = overall(outcome, rollout, pods, hello)
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


def available(mcp: Object[McpSpec], seen: Seen, rollout: workloads.Rollout) -> Condition:
    """Return the condition Available: whether pods are ready."""
    if seen.one(Owned(DEPLOYMENT)) is None:
        return condition("Available", False, Reason.STARTING, "the Deployment does not exist yet")
    remedies = pod_problems.DEFAULT_REMEDIES if mcp.spec.resources else pod_problems.NO_RESOURCES
    trouble = None if rollout.complete else pod_problems.first_problem(seen.all(Owned(POD)), remedies)
    remark = "" if rollout.complete else pod_problems.probe_remark(seen.all(Owned(POD)))
    return workloads.available(rollout, trouble or rollout.problem, remark)


def responding(answer: Answer | None, *, asked: bool) -> Condition:
    """Return the condition Responding: whether the server completes an MCP handshake."""
    if not asked:
        return condition("Responding", Truth.UNKNOWN, Reason.WAITING_FOR_PODS, "checked once the pods are ready")
    if answer is None:
        return condition("Responding", Truth.UNKNOWN, Reason.WAITING_FOR_ANSWER, "the handshake is in progress")
    return condition("Responding", answer.ok, answer.reason, answer.message)


def last_answer(mcp: Object[McpSpec], template: str) -> Answer | None:
    """Return the answer in the stored status; None: it is of another pod template, or there is none.

    It stands until the first check after a restart of the operator. Without it, every restart would make all objects
    unready for a moment.
    """
    stored = stored_condition(mcp.before, "Responding")
    if checked_template(mcp) != template or stored.get("reason") not in set(Reason):
        return None
    if stored.get("status") == Truth.UNKNOWN:
        return None
    told = mcp.before.get("server") or {}
    tools = {"toolCount": mcp.before.get("toolCount", 0), "tools": mcp.before.get("tools", [])}
    ok = stored.get("status") == Truth.TRUE
    return Answer(ok, Reason(stored["reason"]), stored.get("message", ""), {**told, **tools} if told else {})


def overall(outcome: Outcome, rollout: workloads.Rollout, pods: Condition, hello: Condition) -> Condition:
    """Return the condition Ready, from the other two, for this generation."""
    if outcome.problem:
        return failing("Ready", outcome.problem)
    if not rollout.complete or rollout.wanted == 0:
        return condition("Ready", False, Reason(pods.reason), pods.message)
    if hello.status is not Truth.TRUE:
        return condition("Ready", False, Reason(hello.reason), hello.message)
    return condition("Ready", True, Reason.READY, "all pods are ready and the server responds")


def url(mcp: Object[McpSpec]) -> str:
    """Return the URL of the server inside the cluster."""
    scheme = "https" if tls_secret(mcp.spec) else "http"
    server, meta = mcp.spec.server, mcp.meta
    host = names.service_host(service_name(meta.name), meta.namespace)
    return f"{scheme}://{host}:{server.port}{server.path}"
