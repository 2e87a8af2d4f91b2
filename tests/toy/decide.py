"""Which seat a Beacon has: the lowest that is free, taken once and kept."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from msgspec import Struct

from tests.toy.api import Light
from tests.toy.reads import SEATS

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from tests.toy.api import BeaconSpec


class Memory(Struct, frozen=True):
    """What a Beacon remembers: fields of its status."""

    seat: int = 0
    lit: bool = False


class Decision(Struct, frozen=True):
    """What is to be done for a Beacon."""

    memory: Memory
    light: Light


def decide(beacon: Object[BeaconSpec], seen: Seen) -> Decision:
    """Return the seat of a Beacon, and whether its lamp is known to be lit."""
    before: Memory = beacon.memory
    taken = set(seen.every(SEATS).values())
    seat = before.seat or next(number for number in count(1) if number not in taken)
    light = Light(beacon.spec.host, beacon.meta.uid, seat)
    result = seen.result(light)
    return Decision(Memory(seat, before.lit or (result is not None and result.ok)), light)
