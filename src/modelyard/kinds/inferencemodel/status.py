"""The status of an InferenceModel: Placed (hosts are chosen), Ready (all replicas get requests), and what is wrong."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core import names
from modelyard.core.conditions import Condition, Problem, Truth, condition, failing
from modelyard.core.hosts import Protocol
from modelyard.core.quantities import mebibytes
from modelyard.core.reasons import Reason
from modelyard.core.resources import ENDPOINT_SLICE
from modelyard.core.times import timestamp
from modelyard.kinds.contract import Owned
from modelyard.kinds.inferencemodel.api import RESOURCE, InferenceModelStatus, Placement, State
from modelyard.kinds.inferencemodel.endpoints import families, ready_addresses
from modelyard.kinds.inferencemodel.front import front
from modelyard.kinds.inferencemodel.ignored_options import options_ignored
from modelyard.kinds.inferencemodel.life import NOT_LET_IN
from modelyard.kinds.inferencemodel.placement import Refusal
from modelyard.kinds.inferencemodel.pressure import evicted_from, memory_pressure
from modelyard.kinds.inferencemodel.reads import has_foreign_endpoints
from modelyard.kinds.inferencemodel.scene import shown_before

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferencemodel.api import InferenceModelSpec
    from modelyard.kinds.inferencemodel.decide import Decision
    from modelyard.kinds.inferencemodel.life import Replica

_ROOM = frozenset({Refusal.MEMORY, Refusal.MODELS, Refusal.SHARED})


class Published(Struct, frozen=True):
    """What gets requests, as the stored children say."""

    serving: frozenset[tuple[str, int]]
    """Addresses and ports."""
    families: frozenset[str]
    """The address families of the Service."""

    def obstacle(self, address: str) -> str:
        """Return why a replica that is ready gets no requests; empty: it does with the next write."""
        if not address:
            return "pods cannot reach the host"
        family = f"IPv{ip_address(address).version}"
        return "" if family in self.families else f"the host has an {family} address and the Service has none"


def summarise(
    model: Object[InferenceModelSpec], seen: Seen, outcome: Outcome, decision: Decision
) -> InferenceModelStatus:
    """Return the status of one InferenceModel."""
    published = Published(ready_addresses(seen.all(Owned(ENDPOINT_SLICE))), families(front(model, seen)))
    shown = shown_before(model)
    replicas = tuple(_placement(shown, seen, decision, one, published) for one in decision.replicas)
    placed = is_placed(model, decision)
    return InferenceModelStatus(
        replicas=len({one.host for one in replicas}),
        ready_replicas=len(published.serving),
        endpoint=f"http://{names.service_host(model.meta.name, model.meta.namespace)}:{model.spec.port}",
        selector=f"{names.KIND_LABEL}={RESOURCE.kind.lower()},{names.INSTANCE_LABEL}={model.meta.name}",
        placements=replicas,
        conditions=(
            placed,
            is_ready(model, outcome, decision, replicas, placed),
            *warnings(decision, replicas),
            *([failing("ForeignEndpoints", _foreign(model), Truth.TRUE)] if has_foreign_endpoints(model, seen) else []),
            *memory_pressure(decision),
            *options_ignored(model, seen, decision),
        ),
    )


def _placement(
    shown: Mapping[tuple[str, str], Placement],
    seen: Seen,
    decision: Decision,
    one: Replica,
    published: Published,
) -> Placement:
    host = decision.hosts[one.assignment.host]
    is_published = one.state is State.READY and (host.ip, host.port) in published.serving
    before = shown.get((host.name, one.assignment.model))
    same = before is not None and (before.state, before.progress) == (one.state, one.progress)
    return Placement(
        host=host.name,
        model=one.assignment.model,
        state=one.state,
        since=before.since if before and same else timestamp(seen.now),
        progress=one.progress,
        address=host.ip if is_published else "",
        port=host.port if is_published else 0,
        error=one.error or ("" if is_published or one.state is not State.READY else published.obstacle(host.ip)),
    )


def is_placed(model: Object[InferenceModelSpec], decision: Decision) -> Condition:
    """Return the condition Placed: whether there is a host for each replica."""
    wanted = model.spec.replicas
    chosen = sum(one.assignment.model == model.spec.model for one in decision.replicas)
    if model.meta.deleting:
        return condition("Placed", False, Reason.UNLOADING, unloading_text(decision))
    if chosen >= wanted:
        return condition("Placed", True, Reason.PLACED, f"{wanted} of {wanted} replicas have a host")
    return failing("Placed", shortage(decision, chosen, wanted))


def shortage(decision: Decision, chosen: int, wanted: int) -> Problem:
    """Return why there are too few hosts, with how many were refused for each reason."""
    refused = decision.verdict.refused
    message = f"{chosen} of {wanted} replicas have a host; {_refused_text(decision) or _ALONE}"
    if refused and set(refused) <= _ROOM:
        takes = f"; a replica takes {mebibytes(decision.need)}" if decision.need else ""
        remedy = "add a host with more memory, or set spec.memory if the model takes less"
        return Problem(Reason.INSUFFICIENT_MEMORY, f"{message}{takes}", remedy)
    if Refusal.UNASKED in refused:
        # Created together with the model, a host is no shortage yet.
        return Problem(Reason.WAITING_FOR_ANSWER, message, "if that lasts, see the conditions of the InferenceHosts")
    return Problem(Reason.INSUFFICIENT_HOSTS, message, "add an InferenceHost, or lower spec.replicas")


def is_ready(
    model: Object[InferenceModelSpec],
    outcome: Outcome,
    decision: Decision,
    replicas: tuple[Placement, ...],
    placed: Condition,
) -> Condition:
    """Return the condition Ready: whether as many hosts as wanted get requests for the model."""
    own = [one for one in replicas if one.model == model.spec.model]
    serving, wanted = sum(bool(one.address) for one in own), model.spec.replicas
    count = f"{serving} of {wanted} replicas are ready"
    if outcome.problem:
        return failing("Ready", outcome.problem)
    if model.meta.deleting:
        return condition("Ready", False, Reason.UNLOADING, placed.message)
    if decision.suspect:
        return failing("Ready", _SILENCE, Truth.UNKNOWN)
    if wanted == 0:
        return condition("Ready", False, Reason.SCALED_TO_ZERO, "scaled to zero; raise spec.replicas to serve")
    if serving >= wanted:
        return condition("Ready", True, Reason.READY, count)
    if trouble := first_trouble(own, without_other(decision, own)):
        reason = Reason.EVICTED if evicted_from(decision) else trouble.reason
        return failing("Ready", Problem(reason, f"{count}; {trouble.message}", trouble.remedy))
    if placed.status is not Truth.TRUE:
        return condition("Ready", False, Reason(placed.reason), placed.message)
    return condition("Ready", False, Reason.LOADING, f"{count}; the others are being loaded")


def without_other(decision: Decision, replicas: list[Placement]) -> str:
    """Return why no other host can take a replica over; empty: one may, when it is time."""
    is_alone = decision.hosts.keys() == {one.host for one in replicas}
    return _refused_text(decision) or (_ALONE if is_alone else "")


def _refused_text(decision: Decision) -> str:
    counted = [f"{count} {reason}" for reason, count in decision.verdict.refused.items()]
    return f"of the other hosts {', '.join(counted)}" if counted else ""


def first_trouble(replicas: list[Placement], stuck: str) -> Problem | None:
    """Return what keeps replicas from serving, the worst first; None: they are on their way.

    `stuck` is why no other host can take over; empty: one may.
    """
    for state, reason, remedy, move in _TROUBLES:
        hit = [one for one in replicas if one.state is state and one.error]
        if hit:
            refused = {one.error for one in hit} == {NOT_LET_IN}
            why, advice = (Reason.UNAUTHORIZED, _LET_IN) if refused else (reason, remedy)
            said = ", ".join(f"{one.host}: {one.error}" for one in hit)
            if not move:
                return Problem(why, said, advice)
            return Problem(why, f"{said}; {stuck}", advice) if stuck else Problem(why, said, f"{advice}; {move}")
    return None


def warnings(decision: Decision, replicas: tuple[Placement, ...]) -> tuple[Condition, ...]:
    """Return the conditions that are there only when something is wrong."""
    found = []
    failed = [one for one in replicas if one.state is State.FAILED]
    if trouble := first_trouble(failed, without_other(decision, list(replicas))):
        found.append(failing("LoadFailed", trouble, Truth.TRUE))
    if decision.suspect:
        found.append(failing("ProbeSuspect", _SILENCE, Truth.TRUE))
    if blocked := decision.verdict.blocked:
        wrong = f"a replica cannot leave {', '.join(blocked)}, because no other host has room for it"
        found.append(failing("DrainBlocked", Problem(Reason.DRAIN_BLOCKED, wrong, _MORE_ROOM), Truth.TRUE))
    return tuple(found)


def unloading_text(decision: Decision) -> str:
    """Return on which hosts a model that is being deleted still has to be unloaded."""
    left = sorted({one.host for one in decision.memory.pending_unloads})
    silent = [decision.hosts[name] for name in left if not decision.hosts[name].answers]
    later = [one.name for one in silent if one.address.protocol is Protocol.INFERENCED]
    never = [one.name for one in silent if one.name not in later]
    remarks = (
        f"the model is being unloaded from {', '.join(left) or 'its hosts'}",
        f"{', '.join(later)} does not answer, and unloads it when it returns" if later else "",
        f"{', '.join(never)} does not answer, so unload it there by hand if it never does" if never else "",
    )
    return "; ".join(filter(None, remarks))


def _foreign(model: Object[InferenceModelSpec]) -> Problem:
    wrong = (
        f"Endpoints {model.meta.name} has the name of the Service, so Kubernetes sends requests to its addresses, too"
    )
    return Problem(Reason.NAME_CONFLICT, wrong, "delete it, unless that is wanted")


_ALONE = "there is no other host"
_LET_IN = "check spec.auth of the host"
_MORE_ROOM = "add a host, or make room on one"
_SILENCE = Problem(
    Reason.ALL_HOSTS_UNREACHABLE,
    "no host answers; the endpoints stay as they are for two minutes, because the operator itself may be cut off",
    "check the network between the operator and the hosts",
)
_LATER = "after spec.placement.failoverAfterSeconds another takes over"
_TROUBLES = (
    (
        State.FAILED,
        Reason.LOAD_FAILED,
        "it is tried again; see the host's log",
        "after three failures it is tried on another host",
    ),
    (State.UNREACHABLE, Reason.NO_ANSWER, "check the host", _LATER),
    (State.READY, Reason.ADDRESS_NOT_ROUTABLE, "correct spec.endpoint or spec.address of the InferenceHost", ""),
)
"""What may be wrong with a replica, the worst first: the remedy, and what happens by itself if another host fits."""
