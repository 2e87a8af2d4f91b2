"""What a rehearsal would change, child by child, as values and as lines. Pure; no value of a field is ever shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard.core import names
from modelyard.core.conditions import stored_condition
from modelyard.core.diff import all_differences
from modelyard.core.objects import Json, Stored
from modelyard.core.reasons import PROBLEMS
from modelyard.core.resources import DEPLOYMENT
from modelyard.kinds import ALL
from modelyard.runtime.dependents import Item

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from modelyard.cluster.rehearsal import Rehearsed, Written
    from modelyard.core.hosts import LoadModel, UnloadModel

_KINDS: Final = {kind.name: kind.resource.kind for kind in ALL}
_ENTRY_KEYS: Final = ("name", "mountPath", "containerPort", "port", "key", "type", "path")
_TEMPLATE: Final = "spec.template"
_BOOKKEEPING: Final = tuple(f"metadata.annotations.{name}" for name in (names.INTENT, names.REPLICAS))


class Change(Struct, frozen=True, omit_defaults=True):
    """One object that would change: the one of the file, or one of its children."""

    of: str
    """Kind and name of the object in the file."""
    kind: str
    namespace: str
    name: str
    action: str
    """create, change, restart (a change that replaces pods), scale, delete, or ask (a host, to do something)."""
    fields: tuple[str, ...] = ()
    """The paths of fields that would be set, changed or removed, without their values."""


class Problem(Struct, frozen=True):
    """What stands in the way of an object."""

    of: str
    reason: str
    message: str


class Changes(Struct, frozen=True):
    """What `modelyard plan --live -o json` prints."""

    changes: tuple[Change, ...]
    problems: tuple[Problem, ...] = ()


Intents = Mapping[tuple[Item, str, str], Json]
"""Children in full, by their owner, their kind and their name."""


class Subject(Struct, frozen=True):
    """An object of the file, as it would be stored, and the fields of its spec that would change."""

    stored: Stored
    live: Stored | None
    """As it is now; None: it is new."""
    fields: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Kind and name."""
        return f"{self.stored.resource.kind} {self.stored.meta.name}"


def changes(subjects: Iterable[Subject], rehearsed: Rehearsed, intents: Intents) -> Changes:
    """Return all that would change, each object of the file before its children.

    `intents` are the children as the operator wants them now, before the file is applied: what it stated then and does
    not state any more would be removed.
    """
    found: list[Change] = []
    for subject in subjects:
        item = (subject.stored.resource.kind.lower(), subject.stored.meta.key)
        found += _own(subject)
        found += [_child(subject, one, intents) for one in rehearsed.written if one.owner == item]
        found += [_call(subject, call) for owner, calls in rehearsed.calls.items() if owner == item for call in calls]
    return Changes(tuple(found), tuple(_problems(rehearsed)))


def _own(subject: Subject) -> Iterator[Change]:
    kind, meta = subject.stored.resource.kind, subject.stored.meta
    if subject.live is None or subject.fields:
        action = "change" if subject.live else "create"
        yield Change(subject.title, kind, meta.namespace, meta.name, action, subject.fields)


def unequal(one: Any, other: Any, path: str) -> Iterator[str]:
    """Yield the paths at which two values differ; lists are compared whole."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            yield from unequal(one.get(name), other.get(name), f"{path}.{name}")
    elif one != other:
        yield path


def _child(owner: Subject, written: Written, intents: Intents) -> Change:
    action = written.verb
    fields: tuple[str, ...] = ()
    if written.verb == "apply" and written.before is not None and written.body is not None:
        intent = intents.get((written.owner, written.resource.kind, written.key.name), {})
        fields = tuple(dict.fromkeys((*_stated(written.before, written.body), *dropped(intent, written.body))))
        restarts = written.resource == DEPLOYMENT and any(field.startswith(_TEMPLATE) for field in fields)
        action = "restart" if restarts else "change"
    elif written.verb == "scale":
        fields = (f"spec.replicas: {_replicas(written.before)} -> {_replicas(written.body)}",)
    key = written.key
    return Change(owner.title, written.resource.kind, key.namespace, key.name, action, fields)


def _replicas(body: Json | None) -> int:
    return int((body or {}).get("spec", {}).get("replicas", 1))


def _stated(before: Json, body: Json) -> Iterator[str]:
    for path in all_differences(body, before):
        if not path.startswith(_BOOKKEEPING) and path != "metadata.uid":
            yield path


def dropped(intent: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of what an earlier intent states and the one that is wanted now does not."""
    if isinstance(intent, dict) and isinstance(wanted, dict):
        for name, value in intent.items():
            here = f"{path}.{name}".removeprefix(".")
            if name in wanted:
                yield from dropped(value, wanted[name], here)
            else:
                yield here
    elif isinstance(intent, list) and isinstance(wanted, list):
        there = {_entry_name(entry): entry for entry in wanted}
        for name, entry in ((_entry_name(entry), entry) for entry in intent):
            if name and name not in there:
                yield f"{path}[{name}]"
            elif name:
                yield from dropped(entry, there[name], f"{path}[{name}]")


def _entry_name(entry: Any) -> str:
    """Return what tells an entry of a list from the others; empty: nothing does.

    An argument of a command line is its own value, and is not named: the list as a whole is said to change.
    """
    keyed = entry if isinstance(entry, dict) else {}
    return next((str(keyed[key]) for key in _ENTRY_KEYS if key in keyed), "")


def _call(owner: Subject, call: LoadModel | UnloadModel) -> Change:
    what = {name: value for name, value in msgspec.to_builtins(call).items() if name in ("model", "memory") and value}
    host, namespace = call.host.endpoint, owner.stored.meta.namespace
    told = ", ".join(f"{name}: {value}" for name, value in what.items())
    return Change(owner.title, "host", namespace, host, "ask", (f"{type(call).__name__} {told}",))


def _problems(rehearsed: Rehearsed) -> Iterator[Problem]:
    for item, status in rehearsed.statuses.items():
        of, outcome = _named(item), rehearsed.outcomes[item]
        ready = stored_condition(status, "Ready")
        if outcome.problem and outcome.problem.reason in PROBLEMS:
            yield Problem(of, outcome.problem.reason.value, outcome.problem.text)
        elif outcome.problem and ready.get("reason") in PROBLEMS:
            yield Problem(of, str(ready["reason"]), str(ready.get("message", "")))


def _named(item: Item) -> str:
    return f"{_KINDS[item.kind]} {item.key.name}"
