"""The contract between kinds and the runtime: a kind is types and a few pure functions.

Elsewhere each kind has a reconciler with a client in its hands. Here the runtime reads, writes and waits, and a kind
holds no client, no clock and no randomness. So a plan can be printed without a cluster, tested with a YAML file, and
made again at any time. docs/design/0001-one-reconcile.md has the reasons.
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
    """A read of one object by name.

    Secrets and ConfigMaps are read with GET at each reconcile, and no change of them wakes the reader: plan a
    `requeue_after`. Of a Secret only salted hashes of the values are seen.
    """

    resource: Resource
    name: str
    namespace: str = ""
    """Empty: that of the reader. Another one only for an object that an object of that namespace names."""
    compared: bool = False
    """Whether a Secret is read only to compare it with others that are read so. Then what another object has read two
    minutes ago will do, and the hashes of equal values are equal until the operator restarts: none may be stored."""

    def key(self, home: str) -> Key:
        """Return the key of the object, for a reader whose namespace is `home`."""
        return Key((self.namespace or home) if self.resource.namespaced else "", self.name)


class Owned(Struct, frozen=True):
    """A read of the children of one resource. Pods are children of the kind and instance that their labels name."""

    resource: Resource
    component: str = ""
    """Only those with this `app.kubernetes.io/component` label: the pods of a Job, but not those of a server."""

    def includes(self, item: Stored) -> bool:
        """Return whether a child of this resource belongs to the component."""
        return not self.component or item.meta.label(names.COMPONENT_LABEL) == self.component


class Every(Struct, Generic[F], frozen=True):
    """A read of a facet of every object that the selector matches, in one namespace or (empty) in all.

    The facet is all that the reader gets to see of an object, and only a change of it wakes the reader, so nothing that
    the reader depends on can be stale. A facet of None leaves the object out.
    """

    resource: Resource
    facet: Callable[[Stored], F | None]
    namespace: str = ""
    selector: Selector = Selector()
    within: float = 0.0
    """How many seconds a change may wait, so that many changes in a row cost one reconcile."""


class Asked(Struct, frozen=True):
    """A read of the latest answer to a check, which `net/` repeats on its own schedule."""

    check: Check


Lookup = Named | Owned | Every[Any]
"""A read that the API server's objects answer."""
Read = Lookup | Asked


class NotRead(ModelyardError):
    """A bug of a kind: it uses what its `reads` did not name, so no change of it would wake the object."""

    def __init__(self, read: Read) -> None:
        super().__init__(f"`reads` does not name {read}")


class Object(Struct, Generic[S], frozen=True):
    """A custom resource whose spec is decoded."""

    meta: Metadata
    spec: S
    before: Json
    """The stored status, undecoded."""
    memory: Any = None
    """What the kind remembers of earlier decisions, of the type `Kind.memory`; None: the kind has no memory."""

    @property
    def key(self) -> Key:
        """Namespace and name of the object."""
        return self.meta.key


class Seen(Struct, frozen=True):
    """A snapshot of everything that a decision may depend on, with its time."""

    now: datetime
    policy: Policy = Policy()
    found: Mapping[Lookup, Mapping[Key, Any]] = {}
    """What each read found: objects, or for `Every` facets."""
    answers: Mapping[Asked, Answer | None] = {}
    results: Mapping[Check, Answer] = {}
    """The results, known so far, of the calls that the last plan named."""
    unserved: frozenset[Resource] = frozenset()
    """Optional resources that the API server does not serve."""
    forbidden: frozenset[Named] = frozenset()
    """Reads of other namespaces that the API server refuses to the operator. They find nothing."""
    gathering: bool = False
    """Whether `reads` is still being asked. What it has not named yet is empty meanwhile, and an error afterwards."""

    def all(self, read: Named | Owned) -> tuple[Stored, ...]:
        """Return the objects that a read found, sorted by name."""
        found = self._found(read)
        return tuple(found[key] for key in sorted(found))

    def one(self, read: Named | Owned) -> Stored | None:
        """Return the only object that a read found; None: there is none (yet)."""
        return next(iter(self.all(read)), None)

    def every(self, read: Every[F]) -> dict[Key, F]:
        """Return the facets of the objects that a read found, sorted by the names of the objects."""
        found = self._found(read)
        return {key: found[key] for key in sorted(found)}

    def answer(self, read: Asked) -> Answer | None:
        """Return the latest answer to a check; None: there is none yet."""
        if read not in self.answers and not self.gathering:
            raise NotRead(read)
        return self.answers.get(read)

    def result(self, call: Call) -> Answer | None:
        """Return the result of a call of the last plan; None: there is none yet. A failed call is made again."""
        return self.results.get(call)

    def serves(self, resource: Resource) -> bool:
        """Return whether the API server serves an optional resource."""
        return resource not in self.unserved

    def after(self, outcome: Outcome) -> Seen:
        """Return this snapshot with the children as they are after a plan was carried out, for `summarise`."""
        found = {
            read: _overlaid(read, items, outcome) if isinstance(read, Owned) else items
            for read, items in self.found.items()
        }
        # A child that has changed may name reads that were not gathered, such as the check of a Deployment that was
        # taken over. They are as good as unanswered until the next look, which the change itself brings.
        return structs.replace(self, found=found, gathering=found != self.found)

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
    """A validation rule of a spec: as CEL for the API server, and as Python for objects from before the rule."""

    cel: str
    """`self` is the field, or what `at` names. The rule is not evaluated while that is absent."""
    message: str
    field: str
    holds: Callable[[Any, Metadata], bool]
    """Takes the spec and the metadata. SpecInvalid instead of False: in words that the message cannot hold."""
    message_expression: str = ""
    """The message as CEL, for one that holds values of the object; empty: `message` says it all."""
    at: str | None = None
    """A level above the field, for rules that compare fields; empty: the whole object, checked when it is created.

    As low as possible: the API server evaluates a rule when anything below its level changes, and one at the top would
    refuse the status of an object from before the rule.
    """


class Kind(Struct, frozen=True):
    """A kind, as far as the runtime, the generated manifests and the command line know it."""

    resource: Resource
    spec: type[Struct]
    status: type[Struct] | None
    """None: the object is not ours, such as a Namespace. Nothing is written to it, and problems become Events."""
    reads: Callable[[Object[Any], Seen], Iterable[Read]]
    plan: Callable[..., Plan]
    """Takes the object, `Seen` and the decision if there is one; returns every child in full."""
    summarise: Callable[..., Struct] | None
    """Takes the object, `Seen` after the plan was carried out, the outcome and the decision; returns the status. None:
    there is no status."""
    looks_at: tuple[Resource, ...]
    """Resources that `reads` may name besides children."""
    children: tuple[Resource, ...]
    """Resources that `plan` may create and change. Watches and the RBAC role follow from these lists."""
    deletes: tuple[Resource, ...] = ()
    """Resources of children that a plan may delete while the object stays."""
    creates: tuple[Resource, ...] = ()
    """Resources that `plan` may create and never changes (`CreateOnly`)."""
    asks: tuple[type[Check], ...] = ()
    """The types of checks that `reads` may name."""
    calls: tuple[type[Call], ...] = ()
    """The types of calls that a plan may name."""
    conditions: tuple[str, ...] = ("Ready",)
    """The condition types that every object of this kind has. Types in neither of these lists are left alone."""
    optional_conditions: tuple[str, ...] = ()
    """Condition types of this kind that are absent unless there is something to say."""
    status_on_error: Callable[[Json, Problem], Json] = lambda _before, _problem: {}
    """Returns the status fields to change when `summarise` cannot be called: the spec is invalid, the API server does
    not answer, or we have a bug. Takes the stored status and the problem."""
    finalize: Callable[..., Plan] | None = None
    """Takes what `plan` takes, and takes its place while the object is being deleted, until it returns an empty plan.
    It means a finalizer, so it is for what garbage collection cannot do; docs/design/0007-finalizers.md."""
    decide: Callable[[Object[Any], Seen], Any] | None = None
    """Works out, once per reconcile, what plan and status both depend on. The result is the last argument of `plan`,
    `finalize` and `summarise`. None: there is nothing to decide, and they take one argument less."""
    memory: type[Struct] | None = None
    """The part of a decision that must survive a crash: its attribute `memory`, of this type. Its fields are status
    fields. It is written before anything acts on the decision, and the next reconcile finds it in `Object.memory`."""
    pool: str = ""
    """Objects of all kinds with the same pool are reconciled one at a time, because each decides over what the others
    have taken. Empty: side by side."""
    columns: tuple[Column, ...] = ()
    rules: tuple[Rule, ...] = ()
    scale: bool = False
    """Whether `kubectl scale` and autoscalers work on the object: spec.replicas, status.replicas, status.selector."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    def decided(self, obj: Object[Any], seen: Seen) -> tuple[Any, ...]:
        """Return the decision as further arguments of plan, finalize and summarise; empty without `decide`."""
        return (self.decide(obj, seen),) if self.decide else ()

    @property
    def name(self) -> str:
        """The name of the kind in lower case, as in labels, logs and metrics."""
        return self.resource.kind.lower()

    @property
    def watches(self) -> tuple[Resource, ...]:
        """The resources that the runtime watches and caches for this kind. Secrets are never among them."""
        looked_at = (resource for resource in self.looks_at if not resource.by_name)
        wanted = dict.fromkeys((self.resource, *self.children, *self.creates, *looked_at))
        return tuple(resource for resource in wanted if resource != SECRET)
