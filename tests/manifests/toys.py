"""A small kind that uses everything the generators understand."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from modelyard.core.conditions import Condition
from modelyard.core.embedded import EnvVar, ResourceRequirements
from modelyard.core.plan import Plan
from modelyard.core.resources import DEPLOYMENT, POD, SECRET, SERVICE, Resource
from modelyard.kinds.contract import Column, Kind, Rule


class Colour(StrEnum):
    """What it is painted in."""

    RED = "red"
    BLUE = "blue"


class Wheels(Struct, frozen=True, rename="camel"):
    """What it rolls on."""

    how_many: Annotated[int, Meta(description="How many.", ge=0, le=64)] = 4
    made_by: str = ""
    spare: str | None = None


class Part(Struct, frozen=True):
    """Something to build it from."""

    name: str
    count: int = 1


class ToySpec(Struct, frozen=True, rename="camel"):
    """A toy for the generators."""

    colour: Annotated[Colour, Meta(description="Its colour.")]
    wheels: Annotated[Wheels, Meta(description="Its wheels.")] = Wheels()
    tricycle: Wheels = Wheels(how_many=3)
    trailer: Wheels | None = None
    parts: Annotated[
        tuple[Part, ...],
        Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    ] = ()
    names: tuple[str, ...] = ()
    size: int | str = "100%"
    notes: dict[str, str] = {}
    free: dict[str, Any] = {}
    weight: Annotated[int, Meta(ge=0)] = 0
    loud: bool = False
    nickname: str | UnsetType = UNSET
    owner: Annotated[str, Meta(max_length=20)] | None = None
    age: int | None = 3
    env: tuple[EnvVar, ...] = ()
    resources: Annotated[ResourceRequirements | None, Meta(description="What it needs.")] = None


class ToyStatus(Struct, frozen=True, rename="camel"):
    """What is true of a toy."""

    ready: bool = False
    names: tuple[str, ...] = ()
    conditions: Annotated[
        tuple[Condition, ...],
        Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()


TOY = Kind(
    resource=Resource("toys.example.com", "v1", "Toy", "toys"),
    spec=ToySpec,
    status=ToyStatus,
    reads=lambda *_: (),
    plan=lambda *_: Plan(),
    summarise=lambda *_: ToyStatus(),
    looks_at=(POD, SECRET),
    children=(DEPLOYMENT, SERVICE),
    deletes=(SERVICE,),
    columns=(Column("READY", "boolean", ".status.ready"), Column("LOUD", "boolean", ".spec.loud", wide=True)),
    rules=(
        Rule("self < 100", "spec.weight must be less than 100", "spec.weight", lambda *_: True),
        Rule("self.all(name, name != 'x')", "x is no name", "spec.names", lambda *_: True),
        Rule("!self.loud || has(self.owner)", "loud toys need an owner", "spec.owner", lambda *_: True, at="spec"),
        Rule("self.metadata.name != 'gun'", "a gun is no toy", "metadata.name", lambda *_: True, at=""),
    ),
    short_names=("ty",),
    categories=("all-toys",),
)

TOY_WITH_FINALIZER = replace(TOY, finalize=lambda *_: Plan())
