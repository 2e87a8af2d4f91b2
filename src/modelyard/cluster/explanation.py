"""Why an object is not ready, worked out from what was read of it, its children, pods and events. Pure.

`explain` reads the facts and prints the result. The operator's own conditions come first: they name the cause and the
remedy. What pods, events and logs add is what the operator does not repeat in a status.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.cluster import containers, next_steps
from modelyard.cluster.rows import Row, ready_condition, row
from modelyard.core.conditions import stored_condition
from modelyard.core.objects import Stored
from modelyard.core.reasons import PROBLEMS
from modelyard.core.resources import DEPLOYMENT, JOB, VOLUME_CLAIM, Key, Resource
from modelyard.core.text import clean
from modelyard.kinds.shared import pod_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Json = dict[str, Any]

_LONGEST: Final = 2048
_SHOWN_EVENTS: Final = 10
_GOOD: Final = "True"


class Need(Struct, frozen=True):
    """An object that the explained one refers to; without an item: it does not exist."""

    resource: Resource
    key: Key
    item: Stored | None

    @property
    def title(self) -> str:
        """Kind and name."""
        return f"{self.resource.kind} {self.key.name}"


class Log(Struct, frozen=True):
    """The end of the log of a container that failed."""

    pod: str
    container: str
    lines: tuple[str, ...] = ()
    remark: str = ""
    """Why the log could not be read; empty: it was."""


class Facts(Struct, frozen=True):
    """Everything that was read about one object."""

    item: Stored
    needs: tuple[Need, ...] = ()
    children: tuple[Stored, ...] = ()
    pods: tuple[Stored, ...] = ()
    events: tuple[Stored, ...] = ()
    """Warnings of the namespace."""
    logs: tuple[Log, ...] = ()
    unread: tuple[str, ...] = ()
    """What could not be read, a line for each."""


class Cause(Struct, frozen=True):
    """One thing that keeps the object from being ready."""

    about: str
    reason: str
    message: str


class Happened(Struct, frozen=True):
    """One warning event of the object, of a child or of a pod."""

    about: str
    reason: str
    message: str
    count: int
    last: str


class Explanation(Struct, frozen=True, rename="camel"):
    """What `modelyard explain -o json` prints."""

    object: Row
    causes: tuple[Cause, ...]
    conditions: tuple[Json, ...]
    events: tuple[Happened, ...]
    logs: tuple[Log, ...]
    next: tuple[str, ...]
    """Commands to run, the most useful first."""
    unread: tuple[str, ...] = ()


def explain(facts: Facts) -> Explanation:
    """Return what is known about an object; without causes: it is ready, or only time is missing."""
    shown = row(facts.item)
    pods = tuple(pod for pod in facts.pods if not pod.meta.deleting)
    causes = () if shown.ready else tuple(dict.fromkeys(_causes(facts, pods)))
    return Explanation(
        object=shown,
        causes=causes,
        conditions=tuple(facts.item.status.get("conditions") or ()),
        events=() if shown.ready else _events(facts, pods),
        logs=() if shown.ready else facts.logs,
        next=tuple(dict.fromkeys(next_steps.commands(shown, _unready(facts.needs), pods, facts.children))),
        unread=facts.unread,
    )


def _causes(facts: Facts, pods: tuple[Stored, ...]) -> Iterator[Cause]:
    yield from _conditions(facts.item)
    for need in _unready(facts.needs):
        yield _need_cause(need)
    for child in facts.children:
        yield from _child_causes(child)
    for pod in pods:
        yield from _pod_causes(pod)


def _conditions(item: Stored) -> Iterator[Cause]:
    """Yield the conditions with a problem other than that of Ready, which is shown already."""
    ready = ready_condition(item)
    known = {(ready.get("reason"), ready.get("message"))}
    for entry in item.status.get("conditions") or ():
        said = (entry.get("reason"), entry.get("message"))
        if entry.get("reason") in PROBLEMS and said not in known:
            known.add(said)
            yield Cause(f"condition {entry.get('type')}", str(said[0]), _clean(said[1]))


def _unready(needs: Iterable[Need]) -> tuple[Need, ...]:
    return tuple(need for need in needs if need.item is None or not row(need.item).ready)


def _need_cause(need: Need) -> Cause:
    if need.item is None:
        return Cause(need.title, "NotFound", "it does not exist")
    shown = row(need.item)
    return Cause(need.title, shown.reason, _clean(shown.message))


def _child_causes(child: Stored) -> Iterator[Cause]:
    title, status = f"{child.resource.kind} {child.meta.name}", child.status
    for kind, bad in _BAD_CONDITIONS.get(child.resource, ()):
        said = stored_condition(status, kind)
        if said.get("status") == bad:
            yield Cause(title, str(said.get("reason", kind)), _clean(said.get("message")))
    if child.resource == VOLUME_CLAIM and status.get("phase") != "Bound":
        yield Cause(title, str(status.get("phase") or "Pending"), "the claim is not bound to a volume")


_BAD_CONDITIONS: Final = {
    DEPLOYMENT: (("ReplicaFailure", "True"), ("Progressing", "False")),
    JOB: (("Failed", "True"),),
}


def _pod_causes(pod: Stored) -> Iterator[Cause]:
    title = f"Pod {pod.meta.name}"
    if problem := pod_problems.first_problem([pod]):
        yield Cause(title, problem.reason.value, _clean(problem.text))
        return
    if stored_condition(pod.status, "Ready").get("status") == _GOOD or pod.status.get("phase") == "Succeeded":
        return
    waiting = ", ".join(_state(status) for status in containers.statuses(pod) if not status.get("ready"))
    remark = pod_problems.probe_remark([pod])
    told = waiting + (f" ({remark})" if remark else "") if waiting else "it has not started yet"
    yield Cause(title, str(pod.status.get("phase") or "Pending"), _clean(told))


def _state(status: Json) -> str:
    state = status.get("state") or {}
    name = next(iter(state), "waiting")
    reason = (state.get(name) or {}).get("reason", "")
    return f"container {status.get('name')} is {name}" + (f" ({reason})" if reason else "")


def _events(facts: Facts, pods: tuple[Stored, ...]) -> tuple[Happened, ...]:
    """Return the latest warnings about the object, its children and its pods, the newest last."""
    about = {(item.resource.kind, item.meta.name) for item in (facts.item, *facts.children, *pods)}
    deployments = {child.meta.name for child in facts.children if child.resource == DEPLOYMENT}
    told = [_happened(event) for event in facts.events if _is_about(event.part("regarding"), about, deployments)]
    return tuple(sorted(told, key=lambda each: each.last)[-_SHOWN_EVENTS:])


def _is_about(regarding: Json, about: set[tuple[str, str]], deployments: set[str]) -> bool:
    kind, name = str(regarding.get("kind", "")), str(regarding.get("name", ""))
    # A quota that refuses pods is told of the ReplicaSet, which is named after its Deployment.
    return (kind, name) in about or (kind == "ReplicaSet" and name.rpartition("-")[0] in deployments)


def _happened(event: Stored) -> Happened:
    regarding, series = event.part("regarding"), event.part("series")
    times = (series.get("lastObservedTime"), event.part("deprecatedLastTimestamp"), event.part("eventTime"))
    return Happened(
        about=f"{regarding.get('kind')} {regarding.get('name')}",
        reason=str(event.part("reason") or ""),
        message=_clean(event.part("note") or ""),
        count=int(series.get("count") or event.part("deprecatedCount") or 1),
        last=_to_the_second(str(next(filter(None, times), event.meta.creation_timestamp) or "")),
    )


def _to_the_second(time: str) -> str:
    return re.sub(r"\.\d+Z$", "Z", time)


def _clean(text: Any) -> str:
    return clean(str(text or ""), _LONGEST)
