"""A toy kind that uses what MCP does not: `finalize`, reading every object of a kind, reading one by name, and bugs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from modelyard.core.conditions import Condition, condition
from modelyard.core.plan import Child, CreateOnly, Plan, RequeueAfter
from modelyard.core.reasons import Reason
from modelyard.core.resources import CONFIG_MAP, Resource
from modelyard.core.selectors import Selector
from modelyard.kinds.contract import Every, Kind, Named, Object, Owned, Seen
from modelyard.kinds.shared.labels import common

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Json, Stored
    from modelyard.core.plan import Outcome
from modelyard.kinds.contract import Read

WIDGET = Resource("toys.modelyard.dev", "v1", "Widget", "widgets")
ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")
NOTE = Resource("toys.modelyard.dev", "v1", "Note", "notes")


class Spec(Struct, frozen=True, rename="camel"):
    """What a test may ask of a widget."""

    explode: Annotated[bool, Meta(description="Raise in plan.")] = False
    friend: Annotated[str, Meta(description="A widget to read by name.", max_length=63)] = ""
    stamp: Annotated[str, Meta(description="The content of what is made once.", max_length=63)] = ""


class Status(Struct, frozen=True, rename="camel"):
    """What a widget saw."""

    peers: Annotated[int, Meta(description="How many widgets carry the label team=red.")] = 0
    friend_explodes: Annotated[bool, Meta(description="What the friend's spec says.")] = False
    observed_generation: Annotated[int, Meta(description="The generation this speaks of.")] = 0
    conditions: Annotated[tuple[Condition, ...], Meta(description="Ready.")] = ()


def team(item: Stored) -> str:
    """The facet that counting depends on: that it is there at all."""
    return item.meta.name


PEERS = Every(WIDGET, facet=team, selector=Selector((("team", "red"),)))


def reads(widget: Object[Spec], seen: Seen) -> Iterator[Read]:
    yield Owned(CONFIG_MAP)
    yield PEERS
    if widget.spec.friend:
        yield Named(WIDGET, widget.spec.friend)


def plan(widget: Object[Spec], seen: Seen) -> Plan:
    if widget.spec.explode:
        raise ZeroDivisionError("a bug, on purpose")
    head = {"apiVersion": "v1", "kind": "ConfigMap"}
    meta = {"name": widget.meta.name, "labels": common(WIDGET, widget.meta.name)}
    made = Child(CONFIG_MAP, widget.meta.name, {**head, "metadata": meta, "data": {"made": "yes"}})
    return Plan(apply=(made, *once(widget)))


def once(widget: Object[Spec]) -> tuple[CreateOnly, ...]:
    """One object of its own and one for all, neither of which is ever changed."""
    if not widget.spec.stamp:
        return ()
    own, everybodys = f"{widget.meta.name}-once", "everybodys"
    return (
        CreateOnly(ACCOUNT, own, _note(widget, own)),
        CreateOnly(ACCOUNT, everybodys, _note(widget, everybodys), shared=True),
    )


def _note(widget: Object[Spec], name: str) -> Json:
    meta = {"name": name, "labels": common(WIDGET, widget.meta.name)}
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {**meta, "annotations": {"stamp": widget.spec.stamp}},
    }


def finalize(widget: Object[Spec], seen: Seen) -> Plan:
    left = seen.all(Owned(CONFIG_MAP))
    return Plan(delete=tuple(item.ref for item in left), requeue_after=RequeueAfter(1.0, "going") if left else None)


def summarise(widget: Object[Spec], seen: Seen, outcome: Outcome) -> Status:
    friend = seen.one(Named(WIDGET, widget.spec.friend)) if widget.spec.friend else None
    return Status(
        peers=len(seen.every(PEERS)),
        friend_explodes=bool(friend and friend.spec.get("explode")),
        conditions=(condition("Ready", outcome.problem is None, Reason.READY, "as planned"),),
    )


KIND = Kind(
    resource=WIDGET,
    spec=Spec,
    status=Status,
    reads=reads,
    plan=plan,
    summarise=summarise,
    finalize=finalize,
    looks_at=(WIDGET,),
    children=(CONFIG_MAP,),
    deletes=(CONFIG_MAP,),
    creates=(ACCOUNT,),
)
ABSENT = Kind(
    resource=NOTE,
    spec=Spec,
    status=Status,
    reads=lambda *_: (),
    plan=plan,
    summarise=summarise,
    looks_at=(),
    children=(),
)
"""A kind whose definition is not installed."""
