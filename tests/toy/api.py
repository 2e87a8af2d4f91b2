"""The Beacon kind as users write it and as they read it back, and what its host is asked to do."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from modelyard.core.calls import Call
from modelyard.core.conditions import Conditions
from modelyard.core.resources import Resource

RESOURCE = Resource("toys.modelyard.dev", "v1", "Beacon", "beacons")
FLAG = Resource("toys.modelyard.dev", "v1", "Flag", "flags", optional=True)
"""A definition that a cluster may lack."""


class BeaconSpec(Struct, frozen=True, rename="camel"):
    """A lamp that is to be lit on a host."""

    host: Annotated[str, Meta(description="The URL of the host that has the lamp.", min_length=1, max_length=253)]
    colour: Annotated[str, Meta(description="What the children say.", max_length=63)] = "white"


class BeaconStatus(Struct, frozen=True, rename="camel"):
    """What is true of a Beacon."""

    seat: Annotated[int, Meta(description="The seat it has; 0 while it has none.")] = 0
    lit: Annotated[bool, Meta(description="Whether its host has lit the lamp.")] = False
    flagged: Annotated[bool, Meta(description="Whether its Flag is hoisted.")] = False
    observed_generation: Annotated[int, Meta(description="The generation this status speaks of.")] = 0
    conditions: Annotated[Conditions, Meta(description="Ready: the lamp is lit.")] = ()


class Light(Call, frozen=True):
    """Light the lamp of one seat."""

    host: str
    beacon: str
    seat: int


class Douse(Call, frozen=True):
    """Put out the lamp of a Beacon."""

    host: str
    beacon: str
