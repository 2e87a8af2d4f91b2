"""The cold start of a pod: how long it waited for a node, pulled, fetched weights, loaded and got ready. Pure.

Read from the conditions and container statuses of the pod, which have whole seconds. When a startup probe succeeded is
nowhere stored, so `history` remembers it of pods that start while the page runs.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core import names
from modelyard.core.conditions import Truth, stored_condition
from modelyard.kinds.shared.fetch_report import CONTAINER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored

Json = dict[str, Any]

_ENDED: Final = frozenset({"Succeeded", "Failed"})
SCHEDULING: Final = "waiting for a node"
PULLING: Final = "pulling images, mounting volumes"
FETCHING: Final = "fetching weights"
LOADING: Final = "loading"
BECOMING_READY: Final = "becoming ready"


class Span(Struct, frozen=True, rename="camel"):
    """One stage of a cold start."""

    stage: str
    seconds: float
    is_over: bool = True


class ColdStart(Struct, frozen=True, rename="camel"):
    """The stages of one pod, in order."""

    pod: str
    namespace: str
    owner: str
    """The object that the pod belongs to, as `kind/name` in lower case; empty: its labels do not say."""
    created: str
    spans: tuple[Span, ...]
    is_ready: bool
    restarts: int = 0
    """How often containers were started again, of which all is loading: only their last start is stored."""

    @property
    def seconds(self) -> float:
        """How long it took, or takes so far."""
        return sum(span.seconds for span in self.spans)


def cold_start(pod: Stored, now: datetime, loaded: datetime | None = None) -> ColdStart:
    """Return the cold start of a pod until now. `loaded` is when its startup probe succeeded; None: not seen."""
    status = pod.status
    containers = status.get("containerStatuses") or []
    ready = stored_condition(status, "Ready").get("status") == Truth.TRUE
    ended = _ended(containers) if status.get("phase") in _ENDED else None
    return ColdStart(
        pod=pod.meta.name,
        namespace=pod.meta.namespace,
        owner=_owner(pod),
        created=pod.meta.creation_timestamp or "",
        spans=tuple(_spans(_ends(pod, loaded), moment(pod.meta.creation_timestamp), now, ended)),
        is_ready=ready,
        restarts=sum(int(each.get("restartCount") or 0) for each in containers),
    )


def moment(text: Any) -> datetime | None:
    """Return a timestamp of the API; None: it is absent or makes no sense."""
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None


def _owner(pod: Stored) -> str:
    kind, name = pod.meta.label(names.KIND_LABEL), pod.meta.label(names.INSTANCE_LABEL)
    return f"{kind}/{name}" if kind and name else ""


def _ends(pod: Stored, loaded: datetime | None) -> Iterator[tuple[str, datetime | None]]:
    """Return the stages with their ends; None: a stage is not over, and those after it have not begun."""
    status, containers = pod.status, pod.status.get("containerStatuses") or []
    yield SCHEDULING, _turned(status, "PodScheduled")
    only_fetches = bool(containers) and all(map(_fetches, containers))
    before = containers if only_fetches else status.get("initContainerStatuses") or ()
    prepared = _turned(status, "PodReadyToStartContainers") or _turned(status, "PodScheduled")
    for each in filter(_fetches, before):
        yield PULLING, _first_start(each, prepared)
        yield FETCHING, _fetched(each)
    if only_fetches:
        return
    yield PULLING, _started(status)
    # A kubelet sets both at a time. When its node is lost for a while, only the first turns, and nothing has started.
    ready = _turned(status, "Ready" if pod.spec.get("readinessGates") else "ContainersReady")
    if loaded and (ready is None or loaded < ready):
        yield LOADING, loaded
        yield BECOMING_READY, ready
    else:
        yield LOADING, _turned(status, "ContainersReady") or ready
        yield BECOMING_READY, ready


def _spans(
    ends: Iterator[tuple[str, datetime | None]], begin: datetime | None, now: datetime, ended: datetime | None
) -> Iterator[Span]:
    for stage, end in ends:
        if begin is None:
            return
        until = end or ended or now
        seconds = max(0.0, (until - begin).total_seconds())
        if seconds or end is None:
            yield Span(stage, seconds, is_over=bool(end or ended))
        begin = None if end is None else max(begin, end)


def _turned(status: Json, kind: str) -> datetime | None:
    """Return when a condition turned True; None: it is not."""
    found = stored_condition(status, kind)
    return moment(found.get("lastTransitionTime")) if found.get("status") == Truth.TRUE else None


def _fetches(container: Json) -> bool:
    return str(container.get("name", "")).endswith(CONTAINER)


def _ended(containers: list[Json]) -> datetime | None:
    """Return when the last container of a pod that has ended did so; None: its node did not tell."""
    over = ((each.get("state") or {}).get("terminated") or {} for each in containers)
    return max(filter(None, (moment(each.get("finishedAt")) for each in over)), default=None)


def _fetched(container: Json) -> datetime | None:
    """Return when a container that fetches ended well; None: not yet."""
    over = (container.get("state") or {}).get("terminated") or {}
    return moment(over.get("finishedAt")) if over.get("exitCode") == 0 else None


def _started(status: Json) -> datetime | None:
    """Return when the last container started for the first time; None: one has not."""
    initialized = _turned(status, "Initialized")
    found = [_first_start(each, initialized) for each in status.get("containerStatuses") or ()]
    known = [each for each in found if each]
    return max(known) if found and len(known) == len(found) else None


def _first_start(container: Json, soon: datetime | None) -> datetime | None:
    """Return when a container started first; None: it has not.

    Of one that was started again it is not stored. It was `soon` after this, if that is known.
    """
    began = moment(_start(container))
    return soon if began and soon and container.get("restartCount") else began


def _start(container: Json) -> Any:
    """Return when a container started last; None: it has not. One that waits to be started again has started, too."""
    states = (*(container.get("state") or {}).values(), *(container.get("lastState") or {}).values())
    return next((told["startedAt"] for told in states if told and told.get("startedAt")), None)
