"""One object in full: why it is not ready and what to do next, and everything that it consists of. Pure.

`lookup` gathers what this is made from. The counterpart is `kubectl describe`, with the answer first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml
from msgspec import Struct

from modelyard.core.conditions import Truth, stored_condition
from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, JOB, SERVICE, VOLUME_CLAIM
from modelyard.kinds.shared.fetch_report import CONTAINER
from modelyard.kinds.shared.pod_problems import first_problem
from modelyard.page.cold_start import ColdStart
from modelyard.page.history import Turn
from modelyard.page.rows import Row, State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from modelyard.core.objects import Stored

Json = dict[str, Any]

_MOST_MANIFEST: Final = 256 * 1024


class Why(Struct, frozen=True, rename="camel"):
    """Why an object is as it is, and the next step."""

    headline: str
    cause: str = ""
    next_step: str = ""
    waits_for: tuple[str, ...] = ()
    """The ids of objects that it uses and that are missing or not ready."""
    commands: tuple[str, ...] = ()
    """Commands that lead on, the most useful first."""


class Child(Struct, frozen=True, rename="camel"):
    """An object that the operator has made for this one."""

    kind: str
    name: str
    summary: str
    is_well: bool


class Container(Struct, frozen=True, rename="camel"):
    """A container of a pod, for its logs."""

    name: str
    state: str
    restarts: int = 0
    is_init: bool = False


class PodView(Struct, frozen=True, rename="camel"):
    """A pod of the object."""

    name: str
    phase: str
    """As `kubectl get pods` has it: the reason of a container that waits, or else the phase."""
    is_ready: bool
    needs_help: bool
    """Whether it does not get ready by itself."""
    node: str
    containers: tuple[Container, ...]
    start: ColdStart
    message: str = ""
    """Why it waits or has failed; empty: it does not say."""


class EventView(Struct, frozen=True, rename="camel"):
    """An Event of the object or of one of its pods."""

    at: str
    about: str
    reason: str
    note: str
    is_warning: bool
    count: int = 1


class Detail(Struct, frozen=True, rename="camel"):
    """What the page shows of one object."""

    row: Row
    why: Why
    instance: str
    uid: str
    conditions: tuple[Json, ...]
    history: tuple[Turn, ...]
    children: tuple[Child, ...]
    pods: tuple[PodView, ...]
    events: tuple[EventView, ...]
    problems: tuple[str, ...]
    """What could not be looked up, and why."""
    manifest: str
    actions: tuple[str, ...] = ()
    replicas: int | None = None
    """How many replicas the spec asks for; None: the kind has no such field."""
    queue: Json | None = None
    """Its place in the queue for GPUs; None: it does not wait."""
    unseen: tuple[str, ...] = ()
    """The ids of objects that it uses and of which is not known whether they exist."""


def explain(row: Row, rows: Mapping[str, Row], unseen: Collection[str] = ()) -> Why:
    """Return why an object is as it is. The message of a condition ends with the remedy, after a semicolon."""
    seen = (used for used in row.uses if used not in unseen)
    waits_for = tuple(used for used in seen if used not in rows or rows[used].state is not State.READY)
    if row.state is State.READY:
        return Why("It is ready.", waits_for=waits_for)
    cause, _, remedy = row.message.rpartition("; ")
    if not cause:
        cause, remedy = row.message, ""
    return Why(_headline(row), cause, remedy or _usual_step(row, waits_for), waits_for)


def queue_place(status: Json) -> Json | None:
    """Return the place of a service in the queue for GPUs; None: it does not wait."""
    if not status.get("queuePosition"):
        return None
    return {name: status.get(name) for name in ("queuePosition", "waitingFor", "schedulingMessage")}


def manifest(item: Stored) -> str:
    """Return an object as YAML, cut where it is larger than a person reads."""
    text = yaml.safe_dump(item.to_dict(), sort_keys=False, allow_unicode=True)
    return text if len(text) <= _MOST_MANIFEST else f"{text[:_MOST_MANIFEST]}\n# the rest is left out\n"


def child(item: Stored) -> Child:
    """Return a child with its state in a few words."""
    read = _SUMMARIES.get(item.resource.label)
    summary, is_well = read(item) if read else ("", True)
    return Child(item.resource.kind, item.meta.name, "being deleted" if item.meta.deleting else summary, is_well)


def pod_view(pod: Stored, start: ColdStart) -> PodView:
    """Return a pod with its containers."""
    status = pod.status
    containers = (
        *(_container(each, is_init=True) for each in status.get("initContainerStatuses") or ()),
        *(_container(each) for each in status.get("containerStatuses") or ()),
    )
    return PodView(
        name=pod.meta.name,
        phase=_phase(pod),
        is_ready=stored_condition(status, "Ready").get("status") == Truth.TRUE,
        needs_help=status.get("phase") == "Failed" or first_problem([pod]) is not None,
        node=str(pod.spec.get("nodeName") or ""),
        containers=containers,
        start=start,
        message=_trouble(status),
    )


def event_view(event: Stored) -> EventView:
    """Return an Event; a series counts as often as it was seen."""
    regarding, series = event.part("regarding"), event.part("series") or {}
    seen = series.get("lastObservedTime") or event.part("deprecatedLastTimestamp") or event.part("eventTime")
    return EventView(
        at=str(seen or event.meta.creation_timestamp or ""),
        about=f"{regarding.get('kind', '')} {regarding.get('name', '')}".strip(),
        reason=str(event.part("reason") or ""),
        note=str(event.part("note") or ""),
        is_warning=event.part("type") == "Warning",
        count=int(series.get("count") or event.part("deprecatedCount") or 1),
    )


def _headline(row: Row) -> str:
    if row.state is State.ATTENTION:
        return "It does not get ready by itself."
    if row.state is State.RESTING:
        return "It does not serve, because its spec or an annotation says so."
    return "It is being deleted." if row.phase == "Deleting" else "It is on its way."


def _usual_step(row: Row, waits_for: tuple[str, ...]) -> str:
    if waits_for:
        return "look at what it waits for"
    if row.state is State.ATTENTION:
        return "see the pods, events and logs below"
    return "" if row.state is State.RESTING else "wait: nothing needs to be done"


def _container(status: Json, *, is_init: bool = False) -> Container:
    states: Json = status.get("state") or {"waiting": {}}
    kind, told = next(iter(states.items()))
    reason = (told or {}).get("reason")
    words = {"running": "running", "waiting": "waiting", "terminated": "ended"}
    state = f"{words.get(kind, kind)}: {reason}" if reason else words.get(kind, kind)
    return Container(str(status.get("name", "")), state, int(status.get("restartCount") or 0), is_init)


def _phase(pod: Stored) -> str:
    status = pod.status
    if pod.meta.deleting:
        return "Terminating"
    states = (each.get("state") or {} for each in status.get("containerStatuses") or ())
    waits = (str((state.get("waiting") or {}).get("reason") or "") for state in states)
    return next(filter(None, waits), str(status.get("phase") or "Pending"))


def _trouble(status: Json) -> str:
    """Return why a pod waits or has failed; empty: it does not say."""
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for told in (each.get("state") or {}).values():
            if told and told.get("message") and not each["name"].endswith(CONTAINER):
                return str(told["message"])
    scheduled = stored_condition(status, "PodScheduled")
    return str(scheduled.get("message") or "") if scheduled.get("status") == Truth.FALSE else ""


def _of_deployment(item: Stored) -> tuple[str, bool]:
    ready, wanted = item.status.get("readyReplicas", 0), item.spec.get("replicas", 1)
    return f"{ready}/{wanted} ready", ready >= wanted


def _of_service(item: Stored) -> tuple[str, bool]:
    spec = item.spec
    ports = ", ".join(str(each.get("port")) for each in spec.get("ports") or ())
    return f"{spec.get('type', 'ClusterIP')} {spec.get('clusterIP', '')}:{ports}", True


def _of_job(item: Stored) -> tuple[str, bool]:
    for kind, words in (("Complete", "complete"), ("Failed", "failed")):
        if stored_condition(item.status, kind).get("status") == Truth.TRUE:
            return words, kind == "Complete"
    return "running", True


def _of_claim(item: Stored) -> tuple[str, bool]:
    phase = str(item.status.get("phase") or "Pending")
    size = (item.status.get("capacity") or {}).get("storage", "")
    return f"{phase} {size}".strip(), phase == "Bound"


def _of_autoscaler(item: Stored) -> tuple[str, bool]:
    spec, status = item.spec, item.status
    bounds = f"{spec.get('minReplicas', 1)} to {spec.get('maxReplicas', '?')}"
    return f"{status.get('desiredReplicas', 0)} wanted, {bounds}", True


_SUMMARIES: Final[dict[str, Callable[[Stored], tuple[str, bool]]]] = {
    DEPLOYMENT.label: _of_deployment,
    SERVICE.label: _of_service,
    JOB.label: _of_job,
    VOLUME_CLAIM.label: _of_claim,
    AUTOSCALER.label: _of_autoscaler,
}
