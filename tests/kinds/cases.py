"""Case files: what a kind plans and says in a given situation, without a cluster.

A file `tests/kinds/<kind>/cases/*.yaml` holds one or more cases, separated by `---`. A case says `why`, what is `given`
(first the object, then whatever it reads) and what must come of it. What of the metadata does not matter is filled in:
namespace, UID, version, and, for children and pods, that they belong to the object.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml
from msgspec import Struct, field

from modelyard.core import names
from modelyard.core.checks import Answer, Check
from modelyard.core.objects import Json, Stored
from modelyard.core.plan import Child, Outcome, Plan
from modelyard.core.policy import Policy
from modelyard.core.reasons import Reason
from modelyard.core.resources import POD, SECRET, Key, Resource
from modelyard.core.times import timestamp
from modelyard.kinds import served
from modelyard.kinds.contract import Asked, Every, Kind, Lookup, Named, Object, Owned, Read, Seen
from modelyard.kinds.decode import decode
from modelyard.kinds.gather import Gathering
from modelyard.runtime.apply import full_body, with_owner
from modelyard.runtime.cache import Cache, OwnerKey
from modelyard.runtime.dependents import matches
from modelyard.runtime.gather import hashed
from modelyard.runtime.status import summary
from tests.runtime.objects import nobody

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modelyard.core.plan import CreateOnly

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FOLDER = Path(__file__).parent


class Said(Struct, frozen=True, forbid_unknown_fields=True):
    """A reason, and words that the text must hold."""

    reason: Reason
    says: str = ""


class Wrong(Struct, frozen=True, forbid_unknown_fields=True):
    """The field that a bad object is refused for, and words that the text must hold."""

    field: str
    says: str = ""


class Statement(Struct, frozen=True, forbid_unknown_fields=True):
    """What stands at a path of the child of one kind, or of this name. Nothing stands there: `is: null`."""

    kind: str
    value: Any = field(name="is")
    at: str = ""
    name: str = ""


class Told(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer that has come, and the fields of the question that it answers."""

    ok: bool
    reason: Reason
    message: str = ""
    value: Json = {}
    to: Json = {}


class Planned(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What the plan must be. What is deleted and whether it is blocked is always compared."""

    apply: tuple[Statement, ...] = ()
    count: dict[str, int] | None = None
    delete: tuple[str, ...] = ()
    blocked: Said | None = None
    replicas: Json = {}
    requeue_after: float | None = None
    asks: tuple[Json, ...] | None = None
    calls: tuple[Json, ...] | None = None


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """One situation, and what must come of it."""

    why: str
    given: tuple[Json, ...]
    answers: tuple[Told, ...] = ()
    plan: Planned | None = None
    status: Json = {}
    invalid: Wrong | None = None
    policy: Policy = Policy()
    """What the administrator decided, with the field names of `core/policy.py`."""
    unserved: tuple[str, ...] = ()
    """Optional kinds of children that the API server does not serve."""
    forbidden: tuple[str, ...] = ()
    """Namespaces whose Secrets and ConfigMaps the operator may not read."""
    unrestricted: bool = False
    """Whether the user asks for pods that Pod Security `restricted` does not allow."""


class Situation(Struct, frozen=True):
    """A case, played through."""

    kind: Kind
    stored: Stored
    obj: Object[Any]
    reads: tuple[Read, ...]
    seen: Seen
    plan: Plan
    said: Struct | None
    """None: the object has no status of ours."""
    status: Json


def cases(kind: Kind) -> Iterator[tuple[str, Case]]:
    """Return all cases of a kind, each with the name of its file."""
    # The folder of the kind: the object of an internal kind is called something else.
    folder = kind.plan.__module__.split(".")[-2]
    for file in sorted((FOLDER / folder / "cases").glob("*.yaml")):
        # PyYAML's own parser in Python needs ten times as long, in each process of a test run.
        for body in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            yield file.stem, msgspec.convert(body, Case)


def given_object(kind: Kind, case: Case) -> Stored:
    """Return the object that a case is about."""
    return Stored.from_dict(kind.resource, _filled(case.given[0], "default" if kind.resource.namespaced else ""))


def play(kind: Kind, case: Case) -> Situation:
    """Decode, read, plan and summarise, as if the API server accepted everything."""
    stored = given_object(kind, case)
    obj = decode(kind, stored)
    reading = _look(kind, obj, _world(kind, stored, case.given[1:]), case)
    seen = reading.seen(_answers(reading.asked, case.answers))
    decided = kind.decided(obj, seen)
    make_plan = kind.finalize if stored.meta.deleting and kind.finalize else kind.plan
    plan = make_plan(obj, seen, *decided)
    outcome = _carried_out(stored, plan, seen, case.answers)
    if kind.summarise is None:
        return Situation(kind, stored, obj, tuple(reading.reads), seen, plan, None, {"conditions": []})
    said = kind.summarise(obj, seen.after(outcome), outcome, *decided)
    memory = decided[0].memory if kind.memory else None
    status = summary(kind, stored, said, outcome.warning, timestamp(NOW), memory)
    return Situation(kind, stored, obj, tuple(reading.reads), seen, plan, said, status)


def _filled(body: Json, namespace: str = "default") -> Json:
    meta = body["metadata"]
    uid = f"uid-of-{body['kind']}-{meta['name']}".lower()
    return {**body, "metadata": {"namespace": namespace, "uid": uid, "resourceVersion": "1", "generation": 1, **meta}}


def _world(kind: Kind, owner: Stored, given: Iterable[Json]) -> dict[Resource, Cache]:
    known = dict.fromkeys((*kind.children, *kind.creates, *kind.looks_at))
    world = {resource: Cache(resource, nobody, nobody) for resource in known}
    by_name = {resource.kind: resource for resource in known}
    for body in given:
        resource = by_name[body["kind"]]
        belonging = {**body, "metadata": {**_belongings(kind, owner, resource), **body["metadata"]}}
        namespace = "default" if resource.namespaced else ""
        world[resource].upsert(Stored.from_dict(resource, _filled(belonging, namespace)))
    return world


def _belongings(kind: Kind, owner: Stored, resource: Resource) -> Json:
    if resource == POD:
        return {"labels": {names.KIND_LABEL: kind.name, names.INSTANCE_LABEL: names.short(owner.meta.name)}}
    if resource not in (*kind.children, *kind.creates) or resource in kind.looks_at:
        return {}
    head = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "controller": True}
    return {"ownerReferences": [{**head, "name": owner.meta.name, "uid": owner.meta.uid}]}


def _look(kind: Kind, obj: Object[Any], world: dict[Resource, Cache], case: Case) -> Gathering:
    unserved = frozenset(resource for resource in world if resource.optional and resource.kind in case.unserved)
    reading = Gathering(kind, obj, Seen(NOW, case.policy, unserved=unserved))
    for read in reading:
        if isinstance(read, Named) and read.resource.by_name and read.namespace in case.forbidden:
            reading.refused(read)
        else:
            reading.found(read, _find(kind, obj, world, read))
    return reading


def _answers(asked: Iterable[Asked], told: tuple[Told, ...]) -> dict[Asked, Answer]:
    return {read: _answer(one) for read in asked for one in _to(read.check, told)}


def _find(kind: Kind, obj: Object[Any], world: dict[Resource, Cache], read: Lookup) -> dict[Key, Stored]:
    cache = world[read.resource]
    if isinstance(read, Owned):
        children = cache.owned(OwnerKey(kind.name, obj.meta.home, names.short(obj.meta.name)), obj.meta.uid)
        return {key: child for key, child in children.items() if read.includes(child)}
    if isinstance(read, Every):
        return {item.meta.key: item for item in cache.all() if matches(read, item)}
    item = cache.get(read.key(obj.meta.namespace))
    if item is None:
        return {}
    return {item.meta.key: hashed(item, obj.meta.uid) if read.resource == SECRET else item}


def _to(check: Check, answers: tuple[Told, ...]) -> list[Told]:
    question = msgspec.to_builtins(check)
    return [told for told in answers if not differences(told.to, question)]


def _answer(told: Told) -> Answer:
    return Answer(told.ok, told.reason, told.message, told.value)


def _carried_out(owner: Stored, plan: Plan, seen: Seen, told: tuple[Told, ...]) -> Outcome:
    if plan.blocked:
        return Outcome(problem=plan.blocked, requeue_after=plan.requeue_after)
    found = (items for read, items in seen.found.items() if not isinstance(read, Every))
    live = {(item.resource, item.meta.key): item for items in found for item in items.values()}
    children = ((child, Key(owner.meta.home, child.name)) for child in plan.apply)
    stored = tuple(live.get((child.resource, key)) or _created(owner, child) for child, key in children)
    results = {call: _answer(one) for call in plan.calls for one in _to(call, told)}
    return Outcome(stored=stored, deleted=plan.delete, results=results, requeue_after=plan.requeue_after)


def _created(owner: Stored, child: Child | CreateOnly) -> Stored:
    if not isinstance(child, Child):
        body = child.body if child.shared else with_owner(owner, child.body)
        return Stored.from_dict(child.resource, _filled(body))
    body = full_body(owner, child)
    number = {"replicas": child.replicas.at_creation} if child.replicas else {}
    return Stored.from_dict(child.resource, _filled({**body, "spec": {**body.get("spec", {}), **number}}))


def differences(wanted: Any, found: Any, path: str = "") -> list[str]:
    """Return where something is not as a case says. Of a mapping only what the case names is compared."""
    if not isinstance(wanted, dict):
        return [] if wanted == found else [f"{path}: expected {wanted!r}, found {found!r}"]
    if not isinstance(found, dict):
        return [f"{path}: expected {wanted!r}, found {found!r}"]
    return [line for name, value in wanted.items() for line in differences(value, found.get(name), f"{path}.{name}")]


ALL_CASES = tuple((kind, file, case) for kind in served(Policy(door=True)) for file, case in cases(kind))
"""Every case of every kind."""


def named(chosen: Iterable[tuple[Kind, str, Case]]) -> Iterator[tuple[str, Kind, Case]]:
    """Return cases with the names under which the test run shows them."""
    for kind, file, case in chosen:
        yield f"{kind.name}/{file}: {case.why}", kind, case


VALID_CASES = {name: (kind, case) for name, kind, case in named(ALL_CASES) if not case.invalid}
"""Every case with an object that can be planned for, by name."""


@cache
def played(name: str) -> Situation:
    """Return one of the valid cases played through, the same for all tests of a process: they may not change it."""
    return play(*VALID_CASES[name])
