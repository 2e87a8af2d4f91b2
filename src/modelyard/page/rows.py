"""One row per object for the overview: its state, its reason and how far it is. Pure.

`yard` makes the rows and pushes those that have changed to the browsers.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.cluster.rows import NEEDS_HELP, NOT_OBSERVED, RESTS, is_paused, ready_condition
from modelyard.cluster.rows import row as listed
from modelyard.core.conditions import Truth, stored_condition
from modelyard.core.reasons import Reason

if TYPE_CHECKING:
    from modelyard.core.objects import Stored

Json = dict[str, Any]

_RESTING_PHASES: Final = frozenset({"Stopped", "Decommissioned"})


class State(StrEnum):
    """What a user has to know first of an object."""

    READY = "ready"
    WORKING = "working"
    """It is on its way, and there is nothing to do."""
    ATTENTION = "attention"
    """It does not get ready by itself."""
    RESTING = "resting"
    """It does not serve, because its spec says so."""


class Progress(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How far a download is."""

    text: str
    done: int = 0
    """Bytes; 0: only the text is known."""
    total: int = 0
    """Bytes; 0: the source does not say."""
    per_second: int = 0
    seconds_left: int | None = None
    """None: not known."""


class Row(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One object of the overview."""

    id: str
    kind: str
    namespace: str
    name: str
    state: State
    phase: str
    reason: str = ""
    message: str = ""
    """What the condition Ready says; empty: the object is ready."""
    ready: str = ""
    """How many of its pods or hosts are ready, such as 1/2; empty: it has none."""
    since: str = ""
    """When its condition Ready turned; empty: it has none yet."""
    created: str = ""
    uses: tuple[str, ...] = ()
    """The ids of the objects that it refers to or finds, whether they exist or not."""
    progress: Progress | None = None
    """Its download; None: none runs."""
    queue: int = 0
    """Its place among all that wait for GPUs; 0: it does not wait."""
    answers: bool = False
    """Whether it can be asked a question now."""


def object_id(kind: str, namespace: str, name: str) -> str:
    """Return the id of an object. No part of it holds a slash."""
    return f"{kind}/{namespace}/{name}"


def id_of(item: Stored) -> str:
    """Return the id of a stored object."""
    return object_id(item.resource.kind, item.meta.namespace, item.meta.name)


def row(item: Stored, uses: tuple[str, ...] = (), *, can_answer: bool = False) -> Row:
    """Return the row of one object. `can_answer` says whether its kind speaks OpenAI's API."""
    told, state = listed(item), state_of(item)
    return Row(
        id=id_of(item),
        kind=told.kind,
        namespace=told.namespace,
        name=told.name,
        state=state,
        phase=told.phase,
        reason=told.reason,
        message="" if state is State.READY else told.message,
        ready=told.count if told.ready_replicas is not None else "",
        since=str(ready_condition(item).get("lastTransitionTime", "")),
        created=told.created,
        uses=uses,
        progress=progress_of(item.status),
        queue=int(item.status.get("queuePosition") or 0),
        answers=can_answer and _serves(item.status),
    )


def unreadable(item: Stored) -> Row:
    """Return the row of an object whose fields are not those of our definition."""
    return Row(
        id=id_of(item),
        kind=item.resource.kind,
        namespace=item.meta.namespace,
        name=item.meta.name,
        state=State.ATTENTION,
        phase="Unknown",
        message="its fields are not those of the definition of this version; see `modelyard doctor`",
    )


def state_of(item: Stored) -> State:
    """Return the state of an object. A status of an earlier generation says nothing of the present spec."""
    status, ready = item.status, ready_condition(item)
    if item.meta.deleting:
        return State.WORKING
    if is_paused(item):
        return State.RESTING
    if ready["status"] == Truth.TRUE:
        return State.READY
    if ready.get("reason") == NOT_OBSERVED:
        return State.WORKING
    if ready.get("reason") in RESTS or status.get("phase") in _RESTING_PHASES:
        return State.RESTING
    return State.ATTENTION if _needs_help(status, ready) else State.WORKING


def progress_of(status: Json) -> Progress | None:
    """Return the download of an object; None: none runs."""
    told = status.get("download")
    if isinstance(told, dict) and told.get("text"):
        left = told.get("secondsLeft")
        return Progress(
            text=str(told["text"]),
            done=int(told.get("bytes") or 0),
            total=int(told.get("totalBytes") or 0),
            per_second=int(told.get("bytesPerSecond") or 0),
            seconds_left=None if left is None else int(left),
        )
    progressing = stored_condition(status, "Progressing")
    if progressing.get("reason") != Reason.DOWNLOADING or progressing.get("status") != Truth.TRUE:
        return None
    return Progress(str(progressing.get("message", "")))


def _needs_help(status: Json, ready: Json) -> bool:
    return (
        ready.get("reason") in NEEDS_HELP
        or status.get("phase") == "Failed"
        or stored_condition(status, "Degraded").get("status") == Truth.TRUE
    )


def _serves(status: Json) -> bool:
    """Return whether some pod takes requests, also while others are missing."""
    available = ("Available", "PrimaryReady", "Ready")
    return any(stored_condition(status, each).get("status") == Truth.TRUE for each in available)
