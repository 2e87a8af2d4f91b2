"""Which hosts a model is placed on: pure, and called with all that others have taken, so that no memory is given twice.

What holds of every result, and is tested with random fleets:

- No host is over-committed: what is added fits beside all that is reserved there.
- Nothing moves without a cause: a replica leaves only a host that drains, is dead, has failed it, or that the selector
  no longer matches, or when there are more replicas, or other models, than wanted.
- A host that fits is used while replicas are missing.
- A replica that serves goes only when another serves in its place, or when a smaller number is wanted.

`decide` calls it. Its counterpart is the scheduler, for hosts that are no nodes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from modelyard.core.hosts import MOST_MODELS


class Refusal(StrEnum):
    """Why a host takes no replica, as the condition Placed counts it."""

    SELECTOR = "not selected"
    CORDONED = "cordoned or draining"
    UNASKED = "not asked yet"
    UNREACHABLE = "unreachable"
    UNFIT = "without an address for pods"
    FAILED = "failed to load it"
    MEMORY = "short of memory"
    MODELS = "full"
    SHARED = "of unknown memory and in use"


class Room(Struct, frozen=True):
    """A host, as far as placement is concerned."""

    name: str
    refusal: Refusal | None = None
    """Why it takes no further replica of any model; None: it does, if there is room."""
    must_leave: bool = False
    """Whether replicas have to leave it, while they serve."""
    dead: bool = False
    """Whether it has been gone for so long that its replica is to be replaced."""
    gave_up: bool = False
    """Whether the model has failed there so often that another host is tried."""
    budget: int | None = None
    """Bytes for models; None: not known."""
    free: int | None = None
    """Bytes that it reports as free; None: it does not say."""
    max_models: int = 0
    """0: no limit."""
    resident: Mapping[str, int] = {}
    """The models in its memory, ours or not, each with its bytes; 0: not known."""
    taken: Mapping[str, int] = {}
    """What other InferenceModels have reserved, by model; 0: not known."""


class Wanted(Struct, frozen=True):
    """What is to be placed."""

    uid: str
    """Spreads models over hosts that are equally good."""
    model: str
    memory: int
    """Bytes; 0: not known."""
    replicas: int


class Current(Struct, frozen=True):
    """A replica that is placed."""

    host: str
    model: str
    memory: int = 0
    ready: bool = False
    since: str = ""


class Verdict(Struct, frozen=True):
    """What is to change: hosts to add, replicas to drop, and why other hosts were not used."""

    add: tuple[str, ...] = ()
    drop: tuple[Current, ...] = ()
    refused: Mapping[Refusal, int] = {}
    blocked: tuple[str, ...] = ()
    """Hosts that a serving replica should leave and cannot, because no other host fits."""


def place(wanted: Wanted, rooms: Mapping[str, Room], current: tuple[Current, ...]) -> Verdict:
    """Return what is to change. A replica whose host is not in `rooms` is gone, and not the caller's business here."""
    here = [one for one in current if one.host in rooms]
    kept = [one for one in here if not _must_go(wanted, rooms[one.host], one)]
    surplus = _surplus(kept, wanted.replicas, rooms)
    kept = [one for one in kept if one not in surplus]
    leaving = [one for one in here if one not in kept and one not in surplus]
    added, refused = _additions(wanted, rooms, here, kept, leaving)
    stuck = not added and _missing(wanted, kept, leaving) > 0
    swapped = _swap(wanted, rooms, here, kept, leaving) if stuck else None
    if swapped:
        return Verdict((swapped.host,), (*surplus, swapped), refused)
    gone = _released(wanted, rooms, kept, leaving, len(added))
    blocked = [one.host for one in leaving if one.ready and one not in gone and stuck]
    return Verdict(tuple(added), (*surplus, *gone), refused, tuple(sorted(blocked)))


def fits(wanted: Wanted, room: Room, own: Mapping[str, int]) -> Refusal | None:
    """Return why there is no room for the model on a host; None: there is. `own` is what it has reserved itself."""
    reserved = _larger(room.taken, own)
    others = _larger(room.resident, reserved)
    others.pop(wanted.model, None)
    if len(others) + 1 > (room.max_models or MOST_MODELS):
        return Refusal.MODELS
    if wanted.model in reserved and reserved[wanted.model] >= wanted.memory:
        return None
    if room.budget is None or not wanted.memory or not all(others.values()):
        # What is not known counts as the whole host, unless the user has said how many models it can take.
        return Refusal.SHARED if others and not room.max_models else None
    if sum(others.values()) + wanted.memory > room.budget:
        return Refusal.MEMORY
    arriving = sum(memory for model, memory in reserved.items() if model not in room.resident and model in others)
    if room.free is not None and wanted.model not in room.resident and arriving + wanted.memory > room.free:
        return Refusal.MEMORY
    return None


def _larger(some: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return what each model takes: a model of two InferenceModels is in memory once."""
    return {model: max(some.get(model, 0), more.get(model, 0)) for model in {**some, **more}}


def _must_go(wanted: Wanted, room: Room, one: Current) -> bool:
    return one.model != wanted.model or room.must_leave or room.dead or room.gave_up


def _surplus(kept: list[Current], replicas: int, rooms: Mapping[str, Room]) -> list[Current]:
    """Return the replicas beyond the number that is wanted: those that serve least, are most crowded, are newest."""

    def worth(one: Current) -> tuple[object, ...]:
        room = rooms[one.host]
        healthy = room.refusal not in (Refusal.UNASKED, Refusal.UNREACHABLE)
        return (healthy, room.refusal is None, one.ready, -len(room.taken), _inverted(one.since), _inverted(one.host))

    return sorted(kept, key=worth)[: max(0, len(kept) - replicas)]


def _inverted(text: str) -> tuple[int, ...]:
    """Return a key that sorts texts backwards."""
    return tuple(-ord(letter) for letter in text)


def _missing(wanted: Wanted, kept: list[Current], leaving: list[Current]) -> int:
    """Return how many replicas to add now. While replicas move that serve, it is one at a time."""
    missing = wanted.replicas - len(kept)
    serving = sum(one.ready for one in leaving)
    return max(0, missing if not serving else min(missing, missing + 1 - serving))


def _additions(
    wanted: Wanted, rooms: Mapping[str, Room], here: list[Current], kept: list[Current], leaving: list[Current]
) -> tuple[list[str], dict[Refusal, int]]:
    missing = _missing(wanted, kept, leaving)
    if not missing:
        return [], {}
    candidates = [
        room for room in rooms.values() if room.name not in {one.host for one in here if one.model == wanted.model}
    ]
    reasons = {room.name: room.refusal or fits(wanted, room, _own(here, room.name)) for room in candidates}
    usable = sorted(
        (room for room in candidates if reasons[room.name] is None), key=lambda room: _rank(wanted, room, here)
    )
    refused = Counter(reason for reason in reasons.values() if reason)
    return [room.name for room in usable[:missing]], dict(sorted(refused.items()))


def _own(here: list[Current], host: str) -> dict[str, int]:
    return {one.model: one.memory for one in here if one.host == host}


def _rank(wanted: Wanted, room: Room, here: list[Current]) -> tuple[object, ...]:
    """Return the key that sorts the best host first. Hosts of the replaced model come first: nothing else moves."""
    free = room.budget if room.free is None else room.free
    return (
        not _own(here, room.name),
        wanted.model not in room.resident,
        len(room.taken),
        -(free or 0),
        hashlib.sha256(f"{wanted.uid} {room.name}".encode()).hexdigest(),
        room.name,
    )


def _swap(
    wanted: Wanted, rooms: Mapping[str, Room], here: list[Current], kept: list[Current], leaving: list[Current]
) -> Current | None:
    """Return a replica of another model that has to make room first; None: there is none, or one is on its way.

    The last resort, when no host can hold both models: one host at a time, and only while the others serve.
    """
    if not all(one.ready for one in kept):
        return None
    old = (one for one in leaving if one.model != wanted.model and wanted.model not in _own(here, one.host))
    for one in sorted(old, key=lambda each: (each.ready, each.host)):
        room = rooms[one.host]
        rest = [other for other in here if other is not one]
        free = None if room.free is None else room.free + one.memory
        emptied = Room(
            room.name, budget=room.budget, free=free, max_models=room.max_models, taken=room.taken,
            resident={model: memory for model, memory in room.resident.items() if model != one.model},
        )  # fmt: skip
        if not room.refusal and not fits(wanted, emptied, _own(rest, one.host)):
            return one
    return None


def _released(
    wanted: Wanted, rooms: Mapping[str, Room], kept: list[Current], leaving: list[Current], added: int
) -> list[Current]:
    """Return the leaving replicas that are no longer needed."""
    ready = sum(one.ready for one in kept)
    idle = [
        one for one in leaving if not one.ready and _is_idle(wanted, rooms[one.host], one, ready, len(kept) + added)
    ]
    serving = sorted((one for one in leaving if one.ready), key=lambda one: one.host)
    return [*idle, *serving[: max(0, ready + len(serving) - wanted.replicas)]]


def _is_idle(wanted: Wanted, room: Room, one: Current, ready: int, placed: int) -> bool:
    if one.model != wanted.model or (room.must_leave and not room.dead):
        return True
    # A dead host may return before its replacement serves, and one that failed is tried again if there is no other.
    return ready >= wanted.replicas if room.dead else placed >= wanted.replicas
