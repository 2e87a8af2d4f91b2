"""Plans and outcomes: what a kind wants done, and what came of it, as values.

A plan is complete: it holds the full intent of every child, every time. `runtime/apply.py` compares it with the cache
and sends only the requests that are needed.
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
    """The replicas of a child, kept out of its body because an autoscaler or a user may own the number."""

    wanted: int
    autoscaled: bool = False
    at_least: int = 0
    fixed: bool = False
    """Whether the number is put back when another client changes it: a second pod would do harm."""

    @property
    def at_creation(self) -> int:
        """The replicas of a new child: not below the minimum of its autoscaler, or it would start too small."""
        if self.wanted == 0 or not self.autoscaled:
            return self.wanted
        return max(self.wanted, self.at_least)

    @property
    def recorded(self) -> str:
        """What the annotation of a child records of this, so that our change is told from that of another client."""
        return "auto" if self.autoscaled and self.wanted > 0 else str(self.wanted)

    def change(self, before: str, live: int) -> int | None:
        """Return the number to scale to; None: leave it alone.

        `before` is what the annotation records, `live` the current number. While the record is unchanged, the number
        belongs to the client that scaled last: an autoscaler, ours or another one, or a user. A fixed one is ours.
        """
        if before == self.recorded and not self.fixed:
            return None
        if self.autoscaled and self.wanted > 0:
            return self.at_creation if live == 0 else None
        return self.wanted if live != self.wanted else None


class Child(Struct, frozen=True):
    """An object that should exist as planned, owned by the object that is reconciled and in its namespace."""

    resource: Resource
    name: str
    body: Json
    replicas: Replicas | None = None
    group: str = ""
    """When a child cannot be written, the rest of its group is left out, and other groups go on. Without a group it is
    part of the trunk, and the plan ends."""
    if_taken: str = ""
    """What the user may do while an object that is not ours has its name; empty: rename the object."""


class CreateOnly(Struct, frozen=True):
    """An object that is created if absent and never changed: a Job cannot change, and a claim belongs to its users."""

    resource: Resource
    name: str
    body: Json
    shared: bool = False
    """Whether several objects use it. Then it has no owner, is never deleted, and may have been created by a user."""
    group: str = ""
    """As in `Child`."""


class RequeueAfter(Struct, frozen=True):
    """Reconcile the object again after so many seconds, and why.

    A step machine whose next step needs no change from outside asks for 0 seconds: the status that is written for an
    object does not wake that object.
    """

    seconds: float
    why: str


class Plan(Struct, frozen=True):
    """Everything that should be true for one object. A blocked plan changes nothing."""

    apply: tuple[Child | CreateOnly, ...] = ()
    delete: tuple[Ref, ...] = ()
    calls: tuple[Call, ...] = ()
    """Requests to machines outside the cluster, made once the children are written and deleted."""
    blocked: Problem | None = None
    requeue_after: RequeueAfter | None = None


class Outcome(Struct, frozen=True):
    """What came of a plan. Errors are part of it, so that they reach the status before the next try.

    It ends a reconcile in one of four ways: `retry` with back-off; stuck, with a `problem`; again after
    `requeue_after`; or done.
    """

    stored: tuple[Stored, ...] = ()
    deleted: tuple[Ref, ...] = ()
    restored: tuple[str, ...] = ()
    """Fields of children that another client had changed and that were written again."""
    results: Mapping[Check, Answer] = {}
    """The results of calls that are known so far. A call under way has none."""
    problem: Problem | None = None
    """What kept the plan from being carried out; None: nothing did."""
    refused: Mapping[str, Problem] = {}
    """The problems of groups that could not be written, by the name of the group."""
    warning: Problem | None = None
    """What went wrong without ending the plan; the condition Applied shows it."""
    requeue_after: RequeueAfter | None = None
    retry: bool = False
    """Whether the API server was busy or out of reach: the same plan may succeed in a moment."""
    retry_after: float = 0.0
    is_news: bool = True
    """Whether a failure counts for the back-off. Waiting out the Retry-After of the last one does not."""


def overlay(found: Mapping[Key, Stored], outcome: Outcome, resource: Resource) -> dict[Key, Stored]:
    """Return the objects of one resource as they are after the plan was carried out.

    A deleted one stays as long as it has finalizers.
    """
    deleted = {ref.key for ref in outcome.deleted if ref.resource == resource}
    new = {item.meta.key: item for item in outcome.stored if item.resource == resource}
    return {key: item for key, item in {**found, **new}.items() if key not in deleted or item.meta.finalizers}
