"""The status of an Orchestrator: Available (its pod), what was found, what has no effect, and Ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.conditions import Condition, Problem, Truth, condition, failing
from modelyard.core.reasons import Reason
from modelyard.core.resources import DEPLOYMENT
from modelyard.kinds.contract import Owned
from modelyard.kinds.orchestrator.api import OrchestratorStatus
from modelyard.kinds.shared import readiness, workloads
from modelyard.kinds.shared.config_refs import secret_key
from modelyard.kinds.shared.telemetry import collector, ignored

if TYPE_CHECKING:
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.orchestrator.api import OrchestratorSpec, Telemetry
    from modelyard.kinds.orchestrator.decide import OrchestratorDecision, Search

DISCOVERED: Final = "Discovered"
MCPS_DISCOVERED: Final = "MCPsDiscovered"
PORT_CONTENTION: Final = "ReceiverPortContention"
_ONE_COLLECTOR: Final = "the CLI sends to one collector over HTTP, and serves no metrics"

_GRPC: Final = "grpc"
_DEAF: Final = "; it answers no user until spec.channels.telegram.allowedUsersSecretRef names some"
_MOST_NAMED: Final = 3
_MOST_LISTED: Final = 1024
"""As many as the schema of the status takes. The count tells of more."""
_ALLOWED_USERS: Final = "INFER_CHANNELS_TELEGRAM_ALLOWED_USERS"


def summarise(
    orchestrator: Object[OrchestratorSpec], seen: Seen, outcome: Outcome, decision: OrchestratorDecision
) -> OrchestratorStatus:
    """Return the status of one Orchestrator."""
    rollout = workloads.read_rollout(seen.one(Owned(DEPLOYMENT)))
    pod = available(orchestrator.spec, seen, rollout, decision.stopped)
    ready = overall(orchestrator.spec, seen, outcome, rollout, pod, decision)
    agents, servers = _urls(decision.agents), _urls(decision.servers)
    return OrchestratorStatus(
        ready=ready.status is Truth.TRUE,
        discovered_agents=agents[:_MOST_LISTED],
        discovered_agent_count=len(agents),
        discovered_mcps=servers[:_MOST_LISTED],
        discovered_mcp_count=len(servers),
        conditions=(
            pod,
            *found(DISCOVERED, decision.agents, Reason.AGENTS_DISCOVERED, "agents"),
            *found(MCPS_DISCOVERED, decision.servers, Reason.MCPS_DISCOVERED, "tool servers"),
            *port_contention(orchestrator.spec),
            *ignored(unused(orchestrator.spec.telemetry), _ONE_COLLECTOR),
            ready,
        ),
    )


def _urls(search: Search | None) -> tuple[str, ...]:
    return tuple(sorted({place.url for place in search.found})) if search else ()


def available(spec: OrchestratorSpec, seen: Seen, rollout: workloads.Rollout, stopped: Problem | None) -> Condition:
    """Return the condition Available: whether the pod is ready."""
    if stopped:
        return failing("Available", stopped)
    return readiness.available(seen, rollout, spec.resources, readiness.BY_HAND)


def found(kind: str, search: Search | None, reason: Reason, what: str) -> tuple[Condition, ...]:
    """Return the condition of a search by labels; empty: nothing is looked for."""
    if search is None:
        return ()
    if search.problem:
        return (failing(kind, search.problem),)
    return (condition(kind, True, reason, f"{what} found by their labels: {len(search.found)}"),)


def port_contention(spec: OrchestratorSpec) -> tuple[Condition, ...]:
    """Return the condition about the port of the receiver, for which the sessions of a channel compete; empty: none."""
    if not (spec.telemetry.receiver_port and spec.channels.telegram.enabled):
        return ()
    message = "each session of the bot wants the port of the receiver, and only the first gets it"
    return (condition(PORT_CONTENTION, True, Reason.CHANNELS_AND_RECEIVER_ENABLED, message),)


def unused(telemetry: Telemetry) -> list[str]:
    """Return the fields of telemetry that the CLI has no use for."""
    if not telemetry.enabled:
        return []
    metrics, traces = telemetry.metrics, telemetry.traces.otlp if telemetry.traces else None
    used = collector(telemetry.traces, metrics).endpoint
    found = {
        "spec.telemetry.metrics.enabled": metrics.enabled,
        "spec.telemetry.metrics.exporter.prometheus": bool(metrics.exporter and metrics.exporter.prometheus),
        "spec.telemetry.metrics.exporter.otlp.endpoint": bool(metrics.otlp and metrics.otlp.endpoint not in ("", used)),
        "spec.telemetry.metrics.exporter.otlp.protocol": bool(metrics.otlp and metrics.otlp.protocol == _GRPC),
        "spec.telemetry.traces.exporter.otlp.protocol": bool(traces and traces.protocol == _GRPC),
    }
    return [field for field, is_set in found.items() if is_set]


def overall(
    spec: OrchestratorSpec,
    seen: Seen,
    outcome: Outcome,
    rollout: workloads.Rollout,
    pod: Condition,
    decision: OrchestratorDecision,
) -> Condition:
    """Return the condition Ready: the pod runs, and everything that the spec looks for could be looked for."""
    searches = (search.problem for search in (decision.agents, decision.servers) if search)
    problem = outcome.problem or decision.stopped or next((each for each in searches if each), None)
    if problem:
        return failing("Ready", problem)
    if not rollout.complete or rollout.wanted == 0:
        return condition("Ready", False, Reason(pod.reason), pod.message)
    silent = f"; but {decision.gateway.problem.text}" if decision.gateway.problem else ""
    remarks = f"{_DEAF if is_deaf(spec, seen) else ''}{_not_compared(decision.uncompared)}{silent}"
    return condition("Ready", True, Reason.READY, f"the bot runs{remarks}")


def _not_compared(bots: tuple[str, ...]) -> str:
    """Return a remark about bots that may have the same token; empty: there are none."""
    if not bots:
        return ""
    named = f"{', '.join(bots[:_MOST_NAMED])}{' and others' if len(bots) > _MOST_NAMED else ''}"
    return f"; whether {named} has the same token is not known, as the operator may not read Secrets there"


def is_deaf(spec: OrchestratorSpec, seen: Seen) -> bool:
    """Return whether the bot refuses every user, as no list of allowed ones is given, or an optional one is missing."""
    telegram = spec.channels.telegram
    if not telegram.enabled:
        return False
    if ref := telegram.allowed_users_secret_ref:
        return not all(one.value(seen) for one in secret_key(ref))
    return not any(entry.get("name") == _ALLOWED_USERS for entry in spec.env)
