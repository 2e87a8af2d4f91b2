"""What a kind wants done: values, not actions.

A plan is complete: it holds the full intent of every child, every time. What of it needs a request is decided by the
runtime, from what is stored already.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from modelyard.core.calls import Call
from modelyard.core.checks import Answer, Check
from modelyard.core.conditions import Problem
from modelyard.core.objects import Json, Stored
from modelyard.core.resources import Key, Ref, Resource


class Replicas(Struct, frozen=True):
    """How many pods a child should have, kept apart from its body because others may own the number."""

    wanted: int
    autoscaled: bool = False
    at_least: int = 0

    @property
    def at_creation(self) -> int:
        """The number a new child starts with: never below what the autoscaler would ask for."""
        if self.wanted == 0 or not self.autoscaled:
            return self.wanted
        return max(self.wanted, self.at_least)

    @property
    def recorded(self) -> str:
        """What a child remembers of this, so that a later change is told from somebody else's scaling."""
        return "auto" if self.autoscaled and self.wanted > 0 else str(self.wanted)

    def change(self, before: str, live: int) -> int | None:
        """Return the number to scale to, or None to leave it alone.

        `before` is what the child remembers. While that is unchanged the number belongs to whoever scaled it: an
        autoscaler of ours or somebody else's, or a person.
        """
        if before == self.recorded:
            return None
        if self.autoscaled and self.wanted > 0:
            return self.at_creation if live == 0 else None
        return self.wanted if live != self.wanted else None


class Child(Struct, frozen=True):
    """An object that should exist, owned by the object planned for and in its namespace."""

    resource: Resource
    name: str
    body: Json
    replicas: Replicas | None = None
    group: str = ""
    """When a child cannot be written, the rest of its group waits, and other groups go on. Without a group it is part
    of the trunk, and nothing further of the plan is done."""


class CreateOnly(Struct, frozen=True):
    """An object that should exist and is left as it is once it does: its spec cannot change, or is its users' own."""

    resource: Resource
    name: str
    body: Json
    shared: bool = False
    """Whether it serves others too: then it has no owner, outlives everybody, and may be somebody else's."""
    group: str = ""
    """As of a `Child`."""


class RequeueAfter(Struct, frozen=True):
    """Look at this object again after a while, and why.

    A step machine whose next step needs no news from outside asks for 0 seconds: the status that we write for an object
    does not wake that object.
    """

    seconds: float
    why: str


class Plan(Struct, frozen=True):
    """Everything to do for one object. A blocked plan touches nothing."""

    apply: tuple[Child | CreateOnly, ...] = ()
    delete: tuple[Ref, ...] = ()
    calls: tuple[Call, ...] = ()
    """What machines outside the cluster are asked to do, once everything above is done."""
    blocked: Problem | None = None
    requeue_after: RequeueAfter | None = None


class Outcome(Struct, frozen=True):
    """What came of a plan. Errors are part of it, so that they reach the status before the next try."""

    stored: tuple[Stored, ...] = ()
    deleted: tuple[Ref, ...] = ()
    restored: tuple[str, ...] = ()
    """Fields of ours that somebody had changed and that were put back."""
    results: Mapping[Check, Answer] = {}
    """The results of calls that are known so far. A call that is under way, or was just begun, has none."""
    problem: Problem | None = None
    """What kept the plan from being carried out."""
    refused: Mapping[str, Problem] = {}
    """What kept a group of children from being written, by the name of the group."""
    warning: Problem | None = None
    """What went wrong without keeping the object from serving."""
    requeue_after: RequeueAfter | None = None
    retry: bool = False
    """Whether the API server was out of reach or busy: the same plan may succeed in a moment."""
    retry_after: float = 0.0
    is_news: bool = True
    """Whether a failure is a new one: waiting for as long as the server asked for after the last is none."""


def overlay(found: Mapping[Key, Stored], outcome: Outcome, resource: Resource) -> dict[Key, Stored]:
    """Return what is known of one resource after the plan was carried out."""
    gone = {ref.key for ref in outcome.deleted if ref.resource == resource}
    new = {item.meta.key: item for item in outcome.stored if item.resource == resource}
    return {key: item for key, item in {**found, **new}.items() if key not in gone}
