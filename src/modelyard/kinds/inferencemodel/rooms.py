"""The hosts as rooms: which may take a replica, which must be left, what is reserved on each. Called by `decide`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from modelyard.core.hosts import ModelState
from modelyard.kinds.inferencemodel.life import GIVE_UP_AFTER, moment
from modelyard.kinds.inferencemodel.placement import Refusal, Room

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.kinds.inferencemodel.api import LoadFailure
    from modelyard.kinds.inferencemodel.hosts import Host
    from modelyard.kinds.inferencemodel.scene import Scene


def rooms(scene: Scene, failures: Mapping[tuple[str, str], LoadFailure]) -> dict[str, Room]:
    """Return every host of the namespace as a room for the model."""
    return {
        host.name: _room(scene, host, failures.get((host.name, scene.model.spec.model)))
        for host in scene.hosts.values()
    }


def dead_at(scene: Scene, host: Host) -> datetime:
    """Return when the replica of a host that does not answer is to be replaced; never, while none of them answers."""
    if host.answers or scene.before.suspected_since or not host.since:
        return datetime.max.replace(tzinfo=scene.now.tzinfo)
    since = max(moment(host.since, scene.now), moment(scene.before.trusted_since or host.since, scene.now))
    return since + timedelta(seconds=scene.model.spec.placement.failover_after_seconds)


def _room(scene: Scene, host: Host, failure: LoadFailure | None) -> Room:
    selected = scene.model.spec.host_selector.selector.matches(host.labels)
    gave_up = failure is not None and failure.count >= GIVE_UP_AFTER
    taken = scene.taken(host.name)
    return Room(
        name=host.name,
        refusal=_refusal(host, selected=selected, gave_up=gave_up) or _beyond_share(scene, host),
        must_leave=host.leaving or not selected,
        dead=dead_at(scene, host) <= scene.now,
        gave_up=gave_up,
        budget=host.budget,
        free=host.free,
        max_models=host.max_models,
        resident=_resident(host, (*taken, scene.model.spec.model)),
        taken=taken,
    )


def _resident(host: Host, spelled: tuple[str, ...]) -> dict[str, int]:
    """Return the memory of the models that are on a host, by the names that InferenceModels have for them."""
    names = {host.comparable(name): name for name in spelled}
    on_host = (one for one in host.models if one.state is not ModelState.FAILED)
    return {names.get(host.comparable(one.id), one.id): one.memory for one in on_host}


def _beyond_share(scene: Scene, host: Host) -> Refusal | None:
    share = scene.model.spec.memory_fraction
    if share is None or host.budget is None:
        return None
    return Refusal.MEMORY if scene.need() > share * host.budget else None


def _refusal(host: Host, *, selected: bool, gave_up: bool) -> Refusal | None:
    if not selected:
        return Refusal.SELECTOR
    if host.leaving or host.cordoned:
        return Refusal.CORDONED
    if not host.answers:
        return Refusal.UNREACHABLE if host.asked else Refusal.UNASKED
    if not host.schedulable:
        return Refusal.UNFIT
    return Refusal.FAILED if gave_up else None
