"""What a Beacon depends on: its children, and the seats that others have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.resources import CONFIG_MAP
from modelyard.kinds.contract import Every, Owned
from tests.toy.api import FLAG, RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Object, Read, Seen
    from tests.toy.api import BeaconSpec


def seat(beacon: Stored) -> int | None:
    """Return the seat that a Beacon has; None while it has none."""
    return beacon.status.get("seat") or None


SEATS = Every(RESOURCE, seat)


def reads(_beacon: Object[BeaconSpec], _seen: Seen) -> Iterator[Read]:
    """Name everything that decision, plan and status depend on."""
    yield Owned(CONFIG_MAP)
    yield Owned(FLAG)
    yield SEATS
