"""What a kind is: types, and a few pure functions.

The runtime knows nothing else of a kind, and a kind knows nothing of the runtime: it holds no client, no clock and no
randomness. So a plan can be printed without a cluster, tested with a YAML file, and made again at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec import Struct, structs

from modelyard.core import names
from modelyard.core.calls import Call
from modelyard.core.checks import Answer, Check
from modelyard.core.conditions import Problem
from modelyard.core.errors import ModelyardError
from modelyard.core.objects import Json, Metadata, Stored
from modelyard.core.plan import Outcome, Plan, overlay
from modelyard.core.policy import Policy
from modelyard.core.resources import SECRET, Key, Resource
from modelyard.core.selectors import Selector

S = TypeVar("S")
F = TypeVar("F")


class Named(Struct, frozen=True):
    """One object by name, in the reader's own namespace.

    Secrets and ConfigMaps are read anew at each look, and no change of them wakes the reader: plan a `requeue_after`.
    Of a Secret only salted hashes of the values are seen.
    """

    resource: Resource
    name: str


class Owned(Struct, frozen=True):
    """The children of one resource. Pods count as children of the kind and instance that their labels name."""

    resource: Resource
    component: str = ""
    """Only those with this `app.kubernetes.io/component` label, such as the pods of a Job but not those of a server."""

    def includes(self, item: Stored) -> bool:
        """Return whether a child of this resource belongs to the component."""
        return not self.component or item.meta.label(names.COMPONENT_LABEL) == self.component


class Every(Struct, Generic[F], frozen=True):
    """A facet of every object of a resource that the selector means, in one namespace or (empty) in all.

    The facet is all that the reader gets of such an object, and only a change of it wakes the reader, so nothing that
    the reader depends on can be stale. None leaves the object out.
    """

    resource: Resource
    facet: Callable[[Stored], F | None]
    namespace: str = ""
    selector: Selector = Selector()
    within: float = 0.0
    """How many seconds news may wait, so that many changes in a row cost one look."""


class Asked(Struct, frozen=True):
    """The latest answer to a question, asked again on its own schedule."""

    check: Check


Lookup = Named | Owned | Every[Any]
"""A read that the API server's objects answer."""
Read = Lookup | Asked


class NotRead(ModelyardError):
    """A bug of a kind: it uses something that its `reads` did not name, so no change of it would wake the object."""

    def __init__(self, read: Read) -> None:
        super().__init__(f"`reads` does not name {read}")


class Object(Struct, Generic[S], frozen=True):
    """A decoded custom resource."""

    meta: Metadata
    spec: S
    before: Json
    """The status as it was last written."""
    memory: Any = None
    """What the kind decided before and has to remember, read from the status; of the type `Kind.memory`."""

    @property
    def key(self) -> Key:
        """Where the object is stored."""
        return self.meta.key


class Seen(Struct, frozen=True):
    """Everything a decision may depend on, at one moment."""

    now: datetime
    policy: Policy = Policy()
    found: Mapping[Lookup, Mapping[Key, Any]] = {}
    """What each read found: objects, or for `Every` their facets."""
    answers: Mapping[Asked, Answer | None] = {}
    results: Mapping[Check, Answer] = {}
    """The results of the calls that the last plan named, as far as they are known."""
    unserved: frozenset[Resource] = frozenset()
    """Optional resources whose definition the cluster lacks."""
    gathering: bool = False
    """Whether `reads` is still being asked. What it has not named yet is empty until then, and an error afterwards."""

    def all(self, read: Named | Owned) -> tuple[Stored, ...]:
        """Return the objects that a read found, in the order of their names."""
        found = self._found(read)
        return tuple(found[key] for key in sorted(found))

    def one(self, read: Named | Owned) -> Stored | None:
        """Return the only object, or None when there is none (yet)."""
        return next(iter(self.all(read)), None)

    def every(self, read: Every[F]) -> dict[Key, F]:
        """Return the facets of the objects that a read found, in the order of their names."""
        found = self._found(read)
        return {key: found[key] for key in sorted(found)}

    def answer(self, read: Asked) -> Answer | None:
        """Return the latest answer, or None when none has come yet."""
        if read not in self.answers and not self.gathering:
            raise NotRead(read)
        return self.answers.get(read)

    def result(self, call: Call) -> Answer | None:
        """Return the result of a call of the last plan, or None while there is none; a failed call is made again."""
        return self.results.get(call)

    def serves(self, resource: Resource) -> bool:
        """Return whether the cluster has the definition of an optional resource."""
        return resource not in self.unserved

    def after(self, outcome: Outcome) -> Seen:
        """Return what is known once a plan was carried out: what was seen before it is old news."""
        found = {
            read: _overlaid(read, items, outcome) if isinstance(read, Owned) else items
            for read, items in self.found.items()
        }
        return structs.replace(self, found=found)

    def _found(self, read: Lookup) -> Mapping[Key, Any]:
        if read not in self.found and not self.gathering:
            raise NotRead(read)
        return self.found.get(read, {})


def _overlaid(read: Owned, items: Mapping[Key, Stored], outcome: Outcome) -> dict[Key, Stored]:
    known = overlay(items, outcome, read.resource)
    return {key: item for key, item in known.items() if read.includes(item)}


class Column(Struct, frozen=True):
    """One column of `kubectl get`."""

    name: str
    type: str
    path: str
    wide: bool = False


class Rule(Struct, frozen=True):
    """One thing that must hold of an object: as CEL for the API server, as Python for objects that got past it."""

    cel: str
    """`self` is the field, or what `at` names; while that is left out, nothing is asked."""
    message: str
    field: str
    holds: Callable[[Any, Metadata], bool]
    at: str | None = None
    """A level above the field, for what must hold between several; empty: the whole object, asked when it is created.

    As low as it can be: the API server asks again when anything below changes, and must not refuse to store the status
    of an object from before there was a rule.
    """


class Kind(Struct, frozen=True):
    """Everything the runtime, the generated manifests and the command line know of a kind."""

    resource: Resource
    spec: type[Struct]
    status: type[Struct]
    reads: Callable[[Object[Any], Seen], Iterable[Read]]
    plan: Callable[..., Plan]
    """Takes the object and what is seen; returns every child in full."""
    summarise: Callable[..., Struct]
    """Takes the object, what is known after the plan was carried out, and the outcome; returns the status."""
    looks_at: tuple[Resource, ...]
    """What `reads` may name."""
    children: tuple[Resource, ...]
    """What `plan` may create and change. Watches and the RBAC role follow from these lists."""
    deletes: tuple[Resource, ...] = ()
    """Children that a plan may take away while the object lives on."""
    creates: tuple[Resource, ...] = ()
    """What `plan` may create and never changes afterwards."""
    asks: tuple[type[Check], ...] = ()
    """The questions that `reads` may name."""
    calls: tuple[type[Call], ...] = ()
    """The types of calls that a plan may name."""
    conditions: tuple[str, ...] = ("Ready",)
    """The condition types that every object of this kind has. Types that are listed nowhere here are left alone."""
    optional_conditions: tuple[str, ...] = ()
    """Condition types of this kind that are only there when there is something to say."""
    status_on_error: Callable[[Json, Problem], Json] = lambda _before, _problem: {}
    """Status fields to change while no status can be worked out: the spec is invalid, the API server does not answer,
    or we have a bug. It gets the status of before and the problem."""
    finalize: Callable[..., Plan] | None = None
    """Takes what `plan` takes, and takes its place while the object is being deleted, until it returns an empty plan.
    It means a finalizer, so it is for what garbage collection cannot do; docs/design/0007-finalizers.md."""
    decide: Callable[[Object[Any], Seen], Any] | None = None
    """Works out, once per look, what plan and status both depend on. What it returns is handed to `plan`, `finalize`
    and `summarise` as their last argument. None: there is nothing to decide, and they get no such argument."""
    memory: type[Struct] | None = None
    """The part of a decision that has to be remembered: its attribute `memory`, of this type. Its fields are fields of
    the status. It is written before anything acts on the decision, and the next look finds it in `Object.memory`."""
    pool: str = ""
    """Objects of all kinds with the same pool are looked at one after the other, because each decides over what the
    others have taken. Empty: each object by itself."""
    columns: tuple[Column, ...] = ()
    rules: tuple[Rule, ...] = ()
    scale: bool = False
    """Whether `kubectl scale` and autoscalers work on the object: spec.replicas, status.replicas, status.selector."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    def decided(self, obj: Object[Any], seen: Seen) -> tuple[Any, ...]:
        """Return what plan, finalize and summarise take as further arguments: the decision, or nothing."""
        return (self.decide(obj, seen),) if self.decide else ()

    @property
    def name(self) -> str:
        """The kind in lower case, as labels, logs and metrics show it."""
        return self.resource.kind.lower()

    @property
    def watches(self) -> tuple[Resource, ...]:
        """Every resource of which the runtime keeps a cache for this kind. Secrets are never cached."""
        looked_at = (resource for resource in self.looks_at if not resource.by_name)
        wanted = dict.fromkeys((self.resource, *self.children, *self.creates, *looked_at))
        return tuple(resource for resource in wanted if resource != SECRET)
