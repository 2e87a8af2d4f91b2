"""The status of an InferenceHost: Reachable, Authenticated, Schedulable, and Ready when all three are True."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from modelyard.core.checks import Answer
from modelyard.core.conditions import Condition, Problem, Truth, condition, failing
from modelyard.core.hosts import HostReport
from modelyard.core.quantities import mebibytes, quantity
from modelyard.core.reasons import Reason
from modelyard.kinds.inferencehost.api import InferenceHostStatus, Loaded, Memory, Phase, is_routable
from modelyard.kinds.inferencehost.reads import claims_on, places, probe

if TYPE_CHECKING:
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferencehost.api import InferenceHostSpec
    from modelyard.kinds.inferencehost.decide import Decision

_NO_SECRET = frozenset({Reason.SECRET_NOT_FOUND, Reason.SECRET_KEY_MISSING, Reason.FORBIDDEN, Reason.API_UNAVAILABLE})
"""Why the host could not even be asked."""


def summarise(
    host: Object[InferenceHostSpec], seen: Seen, _outcome: Outcome, _decision: Decision
) -> InferenceHostStatus:
    """Return the status of one host."""
    before = stored_status(host)
    answer = seen.answer(probe(host)) or last_answer(before)
    known = reported(host.spec, answer, before) if answer and answer.ok and answer.value else before
    reach, rights = reachable(answer), authenticated(answer, host.spec)
    room = schedulable(host, seen, known.address, answer)
    ready = next((one for one in (reach, rights, room) if one.status is not Truth.TRUE), None)
    return replace(
        known,
        phase=phase(host, ready),
        endpoint=host.spec.url,
        memory=replace(known.memory, allocated=allocated(host, seen)),
        conditions=(reach, rights, room, overall(ready)),
    )


def stored_status(host: Object[InferenceHostSpec]) -> InferenceHostStatus:
    """Return the stored status, or an empty one: it is of another endpoint, or it does not decode."""
    try:
        stored = msgspec.convert(host.before, InferenceHostStatus)
    except msgspec.ValidationError:
        return InferenceHostStatus()
    return stored if stored.endpoint == host.spec.url else InferenceHostStatus()


def last_answer(before: InferenceHostStatus) -> Answer | None:
    """Return the answer that the stored conditions speak of, without its value; None: there was none.

    It stands until the first probe after a restart of the operator. Without it, every restart would take all hosts for
    unreachable, and withdraw their endpoints.
    """
    told = {entry.type: entry for entry in before.conditions if entry.reason in set(Reason)}
    for kind in ("Reachable", "Authenticated"):
        if kind in told and told[kind].status is Truth.FALSE:
            return Answer(False, Reason(told[kind].reason), told[kind].message)
    answered = "Reachable" in told and told["Reachable"].status is Truth.TRUE
    return Answer(True, Reason.ANSWERED, told["Reachable"].message) if answered else None


def reported(spec: InferenceHostSpec, answer: Answer, before: InferenceHostStatus) -> InferenceHostStatus:
    """Return what the host says of itself."""
    said = msgspec.convert(answer.value, HostReport)
    total = quantity(spec.capacity.memory) if spec.capacity.memory else said.total
    return InferenceHostStatus(
        address=chosen_address(said.addresses, before.address),
        memory=Memory(
            total=mebibytes(int(total)) if total else "",
            free="" if said.free is None else mebibytes(said.free),
            pressure=said.pressure or "",
        ),
        model_count=len(said.models),
        models=tuple(msgspec.convert(one, Loaded, from_attributes=True) for one in said.models),
        version=said.version,
    )


def chosen_address(addresses: tuple[str, ...], before: str) -> str:
    """Return the address to publish: the one from before while it is there, else the first, IPv4 first; empty: none.

    One is enough. A host that is published twice would get twice the requests.
    """
    usable = [one for one in addresses if is_routable(one)]
    if before in usable:
        return before
    return min(usable, key=lambda one: (ip_address(one).version, ip_address(one)), default="")


def allocated(host: Object[InferenceHostSpec], seen: Seen) -> str:
    """Return the memory that InferenceModels have reserved on the host. A model of two of them is there once."""
    by_model: dict[str, int] = {}
    for _, claim in claims_on(seen, host.key):
        by_model[claim.model] = max(claim.memory, by_model.get(claim.model, 0))
    return mebibytes(sum(by_model.values()))


def reachable(answer: Answer | None) -> Condition:
    """Return the condition Reachable: whether the daemon answers."""
    if answer is None:
        return condition("Reachable", Truth.UNKNOWN, Reason.WAITING_FOR_ANSWER, "the host has not answered yet")
    if answer.reason in _NO_SECRET:
        return condition("Reachable", Truth.UNKNOWN, answer.reason, answer.message)
    if answer.ok or answer.reason is Reason.UNAUTHORIZED:
        return condition("Reachable", True, Reason.ANSWERED, "the host answers")
    return condition("Reachable", False, answer.reason, answer.message)


def authenticated(answer: Answer | None, spec: InferenceHostSpec) -> Condition:
    """Return the condition Authenticated: whether the daemon lets the operator in."""
    if answer is None:
        return condition("Authenticated", Truth.UNKNOWN, Reason.WAITING_FOR_ANSWER, "the host has not answered yet")
    if answer.reason in _NO_SECRET | {Reason.UNAUTHORIZED}:
        return condition("Authenticated", False, answer.reason, answer.message)
    if not answer.ok:
        return condition("Authenticated", Truth.UNKNOWN, answer.reason, answer.message)
    in_the_open = spec.auth and spec.endpoint.startswith("http://")
    remark = "; its token is sent unencrypted, so prefer an https endpoint" if in_the_open else ""
    return condition("Authenticated", True, Reason.ANSWERED, f"the host lets the operator in{remark}")


def schedulable(host: Object[InferenceHostSpec], seen: Seen, address: str, answer: Answer | None) -> Condition:
    """Return the condition Schedulable: whether models may be placed on the host."""
    if host.meta.deleting or host.spec.drain:
        return failing("Schedulable", Problem(Reason.DRAINING, draining_text(host, seen)))
    if host.spec.unschedulable:
        text = "the host takes no further models, because spec.unschedulable is true"
        return condition("Schedulable", False, Reason.CORDONED, text)
    if not address and (answer is None or not answer.ok):
        return condition("Schedulable", Truth.UNKNOWN, Reason.WAITING_FOR_ANSWER, "its address is not known yet")
    if not address:
        return failing("Schedulable", _NOT_ROUTABLE)
    if twin := earlier_twin(host, seen, address):
        return failing("Schedulable", _duplicate(twin))
    return condition("Schedulable", True, Reason.READY, "models may be placed here")


def draining_text(host: Object[InferenceHostSpec], seen: Seen) -> str:
    """Return which InferenceModels have not left a host yet."""
    still = sorted({model for model, _ in claims_on(seen, host.key)})
    return (
        f"models leave the host; still here: {', '.join(still)}" if still else "no InferenceModel is left on the host"
    )


def earlier_twin(host: Object[InferenceHostSpec], seen: Seen, address: str) -> str:
    """Return the name of an earlier host at the same address and port; empty: there is none."""
    own = (host.meta.creation_timestamp or "", host.meta.name)
    twins = (
        place
        for place in seen.every(places(host.meta.namespace)).values()
        if (place.address, place.port) == (address, host.spec.port) and (place.created, place.name) < own
    )
    return next((place.name for place in twins), "")


def phase(host: Object[InferenceHostSpec], wrong: Condition | None) -> Phase:
    """Return the state of a host in one word; None: nothing is wrong."""
    if host.meta.deleting or host.spec.drain:
        return Phase.DRAINING
    if host.spec.unschedulable:
        return Phase.CORDONED
    return Phase.NOT_READY if wrong else Phase.READY


def overall(wrong: Condition | None) -> Condition:
    """Return the condition Ready, from the first of the others that is not True; None: all are."""
    if wrong:
        return condition("Ready", False, Reason(wrong.reason), wrong.message)
    return condition("Ready", True, Reason.READY, "the host answers and may get models")


_NOT_ROUTABLE = Problem(
    Reason.ADDRESS_NOT_ROUTABLE,
    "pods cannot reach the host: all its addresses are loopback or link-local",
    "write an address of the machine in its network into spec.endpoint or spec.address",
)


def _duplicate(twin: str) -> Problem:
    wrong = f"InferenceHost {twin} has the same address and port"
    return Problem(Reason.DUPLICATE_ENDPOINT, wrong, "delete one of the two, or correct its spec.endpoint")
