"""What is to be done for an InferenceModel: where its replicas are, and what hosts are asked to load and unload.

Everything that hosts are asked to do is in the memory first: an assignment before its load, a pending unload until it
is done. So a crash between any two steps leads to the same end.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from modelyard.core.hosts import LoadModel, ModelState, UnloadModel
from modelyard.core.plan import RequeueAfter
from modelyard.core.times import timestamp
from modelyard.kinds.inferencemodel.api import (
    Assignment,
    InferenceModelSpec,
    LoadFailure,
    Memory,
    PendingUnload,
    State,
)
from modelyard.kinds.inferencemodel.hosts import Host
from modelyard.kinds.inferencemodel.life import (
    AVOID_SECONDS,
    GIVE_UP_AFTER,
    NOT_LET_IN,
    Past,
    Replica,
    moment,
    observe,
    retry_at,
)
from modelyard.kinds.inferencemodel.placement import Current, Verdict, Wanted, place
from modelyard.kinds.inferencemodel.rooms import dead_at, rooms
from modelyard.kinds.inferencemodel.scene import GRACE_SECONDS, Scene, failure_of, scene_of
from modelyard.kinds.inferencemodel.settings import (
    loaded_with,
    next_reload,
    options_text,
    reload_of,
    terms_hash,
    with_terms,
)

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen

TOGETHER_SECONDS: Final = 60.0
"""Hosts that stop answering within this time have stopped together."""
_SOONEST: Final = 0.5


class Decision(Struct, frozen=True):
    """What is to be done."""

    memory: Memory
    replicas: tuple[Replica, ...] = ()
    """All replicas, sorted by host."""
    hosts: Mapping[str, Host] = {}
    verdict: Verdict = Verdict()
    need: int = 0
    """The bytes that a replica takes; 0: not known."""
    loads: tuple[LoadModel, ...] = ()
    unloads: tuple[UnloadModel, ...] = ()
    finishing: tuple[PendingUnload, ...] = ()
    """Replicas that get no new requests and finish those that they have."""
    suspect: bool = False
    """Whether no host at all answers, and the published endpoints stay for a while."""
    requeue_after: RequeueAfter | None = None


def decide(model: Object[InferenceModelSpec], seen: Seen) -> Decision:
    """Return what is to be done for one InferenceModel."""
    scene = scene_of(model, seen)
    replicas = [_observed(scene, one) for one in scene.before.assignments if one.host in scene.hosts]
    failures = _failures(scene, replicas)
    verdict = place(_wanted(scene), rooms(scene, failures), tuple(_current(one) for one in replicas))
    dropped = {(one.host, one.model) for one in verdict.drop}
    kept = [one for one in replicas if (one.assignment.host, one.assignment.model) not in dropped]
    pending = _pending(scene, kept, [one for one in replicas if one not in kept], verdict.add)
    if outdated := next_reload(scene, kept):
        kept = [_reloading(scene, one) if one is outdated else one for one in kept]
        pending = tuple(sorted((*pending, _unloading(scene, outdated, reload=True)), key=lambda one: one.host))
    added = [_new_replica(scene, host) for host in verdict.add]
    staying = tuple(sorted((*kept, *added), key=lambda one: (one.assignment.host, one.assignment.model)))
    memory = replace(
        scene.before,
        assignments=tuple(one.assignment for one in staying),
        pending_unloads=pending,
        load_failures=tuple(failures[name] for name in sorted(failures)),
    )
    return _acting(scene, memory, staying, verdict)


def _observed(scene: Scene, assignment: Assignment) -> Replica:
    host, spec = scene.hosts[assignment.host], scene.model.spec
    entry = host.loaded(assignment.model)
    known = scene.need() if assignment.model == spec.model else 0
    if known and (spec.memory or not assignment.memory):
        assignment = replace(assignment, memory=known)
    if host.answers and entry is None and not assignment.ours:
        # What was there before has gone, and is loaded by us from now on. It may have been a listing from before our
        # own unload.
        assignment = replace(assignment, ours=True)
    if not host.answers:
        kept = entry is not None and entry.state is ModelState.READY and _is_suspected(scene, host)
        error = NOT_LET_IN if host.refuses else "the host does not answer"
        return Replica(assignment, State.READY if kept else State.UNREACHABLE, error="" if kept else error)
    if (reload := reload_of(scene, assignment)) and not _is_unloaded(scene, reload):
        return Replica(assignment, State.PENDING)
    failure = failure_of(scene.before, assignment)
    past = Past(
        shown=scene.shown.get((assignment.host, assignment.model)),
        failure=failure,
        result=scene.seen.result(_load(scene, assignment, failure)),
    )
    return with_terms(scene, observe(assignment, entry, past, scene.now), past.result)


def _is_suspected(scene: Scene, host: Host) -> bool:
    """Return whether a host is silent only because all of them are."""
    if not scene.suspect:
        return False
    apart = moment(scene.before.suspected_since, scene.now) - moment(host.since, scene.now)
    return apart.total_seconds() < TOGETHER_SECONDS


def _load(scene: Scene, assignment: Assignment, failure: LoadFailure | None) -> LoadModel:
    return LoadModel(
        host=scene.hosts[assignment.host].address,
        model=assignment.model,
        owner=scene.owner,
        memory=assignment.memory,
        options=scene.model.spec.options.of_load,
        terms=scene.model.spec.terms,
        attempt=failure.count + 1 if failure else 1,
    )


def _failures(scene: Scene, replicas: list[Replica]) -> dict[tuple[str, str], LoadFailure]:
    """Return the failures to remember: of replicas that are not ready, and of hosts that were given up lately."""
    placed = {(one.assignment.host, one.assignment.model): one for one in replicas}
    found = {(one.host, one.model): one for one in scene.before.load_failures if one.host in scene.hosts}
    kept = {key: one for key, one in found.items() if key in placed or _is_avoided(scene, one)}
    for key, one in placed.items():
        if one.state is State.READY:
            kept.pop(key, None)
        elif one.failed:
            count = kept[key].count + 1 if key in kept else 1
            kept[key] = LoadFailure(*key, count, timestamp(scene.now), one.error, int(one.wait))
    return kept


def _is_avoided(scene: Scene, failure: LoadFailure) -> bool:
    gone = (scene.now - moment(failure.since, scene.now)).total_seconds()
    return failure.model == scene.model.spec.model and failure.count >= GIVE_UP_AFTER and gone < AVOID_SECONDS


def _wanted(scene: Scene) -> Wanted:
    meta, spec = scene.model.meta, scene.model.spec
    return Wanted(meta.uid, spec.model, scene.need(), 0 if meta.deleting else spec.replicas)


def _current(one: Replica) -> Current:
    held = one.assignment
    return Current(held.host, held.model, held.memory, one.state is State.READY, held.since)


def _new_replica(scene: Scene, name: str) -> Replica:
    """Return a replica on a host that was chosen just now. A model that is there already is adopted."""
    host, model = scene.hosts[name], scene.model.spec.model
    entry = host.loaded(model)
    # What InferenceModels have loaded is unloaded in the end, by the last of them; what a person has loaded is not.
    # That it is listed may be from before our own unload, or its InferenceModel has gone while the host was down.
    asked_by_us = entry is not None and entry.owner.partition("/")[0] == scene.model.meta.namespace
    ours = entry is None or entry.state is ModelState.FAILED or model in scene.taken(name) or asked_by_us
    spec = scene.model.spec
    assignment = Assignment(
        name,
        model,
        scene.need(),
        timestamp(scene.now),
        ours,
        loaded_with(scene, name, entry),
        # A host that has the model already was told other terms, or none.
        terms_hash(spec.terms) if entry is None else "",
    )
    failure = failure_of(scene.before, assignment)
    return observe(assignment, entry, Past(failure=failure), scene.now)


def _pending(
    scene: Scene, kept: list[Replica], dropped: list[Replica], added: tuple[str, ...]
) -> tuple[PendingUnload, ...]:
    """Return what is to be unloaded: what was before and is not done, and what is dropped now and is ours."""
    placed = [(one.host, one.model) for other in scene.others for one in other.assignments]
    placed += [(one.assignment.host, one.assignment.model) for one in kept]
    placed += [(host, scene.model.spec.model) for host in added]
    # By machine: of two InferenceHosts that are one, the one that goes must not unload what the other one uses.
    in_use = {(scene.machine(host), model) for host, model in placed}
    new = (_unloading(scene, one) for one in dropped if one.assignment.ours)
    open_still = (
        one for one in scene.before.pending_unloads if one.host in scene.hosts and not _is_unloaded(scene, one)
    )
    found = {
        (one.host, one.model): one
        for one in (*new, *open_still)
        if one.reload or (scene.machine(one.host), one.model) not in in_use
    }
    return tuple(found[key] for key in sorted(found))


def _unloading(scene: Scene, replica: Replica, *, reload: bool = False) -> PendingUnload:
    held, serving = replica.assignment, replica.state is State.READY
    return PendingUnload(held.host, held.model, held.memory, timestamp(scene.now), serving, reload)


def _reloading(scene: Scene, replica: Replica) -> Replica:
    """Return a replica that is loaded with other options once it is unloaded."""
    options = options_text(scene.model.spec.options.of_load)
    return Replica(replace(replica.assignment, options=options), State.PENDING)


def _unload(scene: Scene, pending: PendingUnload) -> UnloadModel:
    return UnloadModel(scene.hosts[pending.host].address, pending.model, scene.owner)


def _is_unloaded(scene: Scene, pending: PendingUnload) -> bool:
    result = scene.seen.result(_unload(scene, pending))
    if result is None or not result.ok:
        return False
    # The host unloads in its own time, and refuses other options until that is over.
    return not pending.reload or scene.hosts[pending.host].loaded(pending.model) is None


def _acting(scene: Scene, memory: Memory, replicas: tuple[Replica, ...], verdict: Verdict) -> Decision:
    """Return the decision: what to ask of hosts for this memory, and when time alone brings the next step."""
    unloading = {one.host for one in memory.pending_unloads}
    ends = {one: _drained_at(scene, one) for one in memory.pending_unloads}
    answering = [one for one in memory.pending_unloads if scene.hosts[one.host].answers]
    return Decision(
        memory=memory,
        replicas=replicas,
        hosts=scene.hosts,
        verdict=verdict,
        need=scene.need(),
        # After the unload: a host may not have the memory for both.
        loads=tuple(
            _load(scene, one.assignment, failure_of(memory, one.assignment))
            for one in replicas
            if one.request and one.assignment.host not in unloading
        ),
        unloads=tuple(_unload(scene, one) for one in answering if ends[one] <= scene.now),
        finishing=tuple(one for one in answering if one.serving and ends[one] > scene.now),
        suspect=scene.suspect,
        requeue_after=_next_step(scene, memory, replicas, [*ends.values()]),
    )


def _drained_at(scene: Scene, pending: PendingUnload) -> datetime:
    seconds = scene.model.spec.placement.drain_seconds if pending.serving else 0
    return moment(pending.since, scene.now) + timedelta(seconds=seconds)


def _next_step(
    scene: Scene, memory: Memory, replicas: tuple[Replica, ...], ends: list[datetime]
) -> RequeueAfter | None:
    """Return when to look again although nothing has changed; None: only news can change anything."""
    moments = [*ends, *(one.until for one in replicas if one.until)]
    moments += [dead_at(scene, scene.hosts[one.assignment.host]) for one in replicas]
    moments += [retry_at(one, scene.now) for one in memory.load_failures]
    moments += [moment(one.since, scene.now) + timedelta(seconds=AVOID_SECONDS) for one in memory.load_failures]
    if memory.suspected_since:
        moments.append(moment(memory.suspected_since, scene.now) + timedelta(seconds=GRACE_SECONDS))
    far = datetime.max.replace(tzinfo=scene.now.tzinfo)
    ahead = [(one - scene.now).total_seconds() for one in moments if scene.now < one < far]
    return RequeueAfter(max(min(ahead), _SOONEST), "time alone brings the next step") if ahead else None
