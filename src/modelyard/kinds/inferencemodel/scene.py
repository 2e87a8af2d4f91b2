"""What a decision about an InferenceModel is made of: its hosts, what others have taken, and what it remembers.

`decide` makes one `Scene` per reconcile, and `rooms` turns its hosts into what `placement` chooses from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from modelyard.core.quantities import quantity
from modelyard.core.times import timestamp
from modelyard.kinds.contract import Object, Seen
from modelyard.kinds.inferencemodel.api import InferenceModelSpec, Memory, Placement
from modelyard.kinds.inferencemodel.hosts import Host, hosts
from modelyard.kinds.inferencemodel.life import moment
from modelyard.kinds.inferencemodel.reads import Held, held_by_others

if TYPE_CHECKING:
    from datetime import datetime

    from modelyard.kinds.inferencemodel.api import Assignment, LoadFailure

GRACE_SECONDS: Final = 120.0
"""How long endpoints stay published when no host at all answers: it may be the operator that is cut off."""


class Scene(Struct, frozen=True):
    """Everything that a decision depends on."""

    model: Object[InferenceModelSpec]
    seen: Seen
    hosts: Mapping[str, Host]
    others: tuple[Held, ...]
    """What other InferenceModels have taken."""
    before: Memory
    """What it remembers, with since when no host answers."""
    shown: Mapping[tuple[str, str], Placement]
    """The replicas as the stored status shows them, by host and model."""
    suspect: bool
    """Whether no host at all answers, and endpoints stay for a while."""

    @property
    def now(self) -> datetime:
        """The time of the decision."""
        return self.seen.now

    @property
    def owner(self) -> str:
        """The object, as hosts show it to people."""
        return str(self.model.key)

    def machine(self, host: str) -> tuple[str, int]:
        """Return what two InferenceHosts of one machine have in common; of one that is gone, or away, its name."""
        known = self.hosts.get(host)
        return (known.ip, known.port) if known and known.ip else (host, 0)

    def need(self) -> int:
        """Return the memory that the model takes: as its user says, or as hosts have reported; 0: not known."""
        if self.model.spec.memory:
            return int(quantity(self.model.spec.memory))
        model = self.model.spec.model
        reported = [one.memory for host in self.hosts.values() if (one := host.loaded(model))]
        reserved = [one.memory for other in self.others for one in other.assignments if one.model == model]
        return max([*reported, *reserved], default=0)

    def taken(self, host: str) -> dict[str, int]:
        """Return what is reserved on a host for others, and for what is still to be unloaded there, by model."""
        placed = [one for other in self.others for one in other.assignments if one.host == host]
        pending = [*self.before.pending_unloads, *(one for other in self.others for one in other.pending_unloads)]
        found: dict[str, int] = {}
        for model, memory in (
            *((one.model, one.memory) for one in placed),
            *((one.model, one.memory) for one in pending if one.host == host),
        ):
            found[model] = max(memory, found.get(model, 0))
        return found


def scene_of(model: Object[InferenceModelSpec], seen: Seen) -> Scene:
    """Return the scene of one reconcile."""
    known = {host.name: host for host in seen.every(hosts(model.meta.namespace)).values()}
    before = _suspicion(model.memory, known, seen.now)
    since = moment(before.suspected_since, seen.now)
    suspect = bool(before.suspected_since) and (seen.now - since).total_seconds() < GRACE_SECONDS
    return Scene(model, seen, known, tuple(held_by_others(model, seen)), before, shown_before(model), suspect)


def shown_before(model: Object[InferenceModelSpec]) -> dict[tuple[str, str], Placement]:
    """Return the replicas as the stored status shows them, by host and model."""
    try:
        shown = msgspec.convert(model.before.get("placements") or (), tuple[Placement, ...])
    except msgspec.ValidationError:
        return {}
    return {(one.host, one.model): one for one in shown}


def _suspicion(memory: Memory, known: Mapping[str, Host], now: datetime) -> Memory:
    """Return the memory with since when no host at all answers. A single host that is gone is just gone."""
    silent = len(known) > 1 and not any(host.answers for host in known.values())
    if silent and memory.assignments and not memory.suspected_since:
        return replace(memory, suspected_since=timestamp(now))
    if not silent and memory.suspected_since:
        # The clock of every failover begins anew. Otherwise the first host that returns would get the replicas of all.
        return replace(memory, suspected_since="", trusted_since=timestamp(now))
    return memory


def failure_of(memory: Memory, assignment: Assignment) -> LoadFailure | None:
    """Return the loads of a replica that failed; None: none has."""
    wanted = (assignment.host, assignment.model)
    return next((one for one in memory.load_failures if (one.host, one.model) == wanted), None)
