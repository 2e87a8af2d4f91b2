"""The life of one replica: from what its host shows and what came of our calls to its state. Pure.

    Pending -> Downloading -> Loading -> Ready        and from each of them: Failed, Unreachable
       ^                                   |
       +---- the host has forgotten it ----+

A load is requested while the host does not list the model, and the request is safe to repeat. A load that fails is
tried again with back-off; the count of failures is remembered, and is part of the next request. `decide` calls it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core.backoff import doubled
from modelyard.core.checks import Answer
from modelyard.core.hosts import ModelState
from modelyard.kinds.inferencemodel.api import Assignment, LoadFailure, Placement, State

if TYPE_CHECKING:
    from modelyard.kinds.inferencehost.api import Loaded

GIVE_UP_AFTER: Final = 3
"""How many loads may fail on a host before another host is tried."""
AVOID_SECONDS: Final = 600.0
"""How long a host that was given up is left alone."""
STALL_SECONDS: Final = 1800.0
"""How long a load may make no progress."""
LISTED_SECONDS: Final = 30.0
"""How long a host that has accepted a model may take to list it, or to forget an earlier failure: some probes."""
NOT_LET_IN: Final = "the host does not let the operator in"
"""The error of a replica whose host answers, and refuses the token of the operator."""

_FIRST_PAUSE: Final = 10.0
_LONGEST_PAUSE: Final = 300.0
_UNDER_WAY: Final = frozenset({State.DOWNLOADING, State.LOADING, State.READY})
_SHOWN: Final = {
    ModelState.DOWNLOADING: State.DOWNLOADING,
    ModelState.LOADING: State.LOADING,
    ModelState.READY: State.READY,
}


class Replica(Struct, frozen=True):
    """A replica now."""

    assignment: Assignment
    state: State
    progress: int = 0
    error: str = ""
    request: bool = False
    """Whether its host is to be asked to load it."""
    failed: bool = False
    """Whether this failure is news, and has to be counted."""
    wait: float = 0.0
    """Seconds that the host asked to wait."""
    until: datetime | None = None
    """When time alone changes something; None: it does not."""


class Past(Struct, frozen=True):
    """What is known of a replica from before."""

    shown: Placement | None = None
    """As the status shows it; None: it is new."""
    failure: LoadFailure | None = None
    """Its loads that failed; None: none has."""
    result: Answer | None = None
    """What came of the latest request; None: nothing yet."""

    def waited(self, now: datetime) -> float:
        """Return for how many seconds it has been as it is shown."""
        return (now - moment(self.shown.since, now)).total_seconds() if self.shown else 0.0


def observe(assignment: Assignment, entry: Loaded | None, past: Past, now: datetime) -> Replica:
    """Return the state of a replica whose host answers; None: the host does not list the model."""
    if entry and entry.state in _SHOWN:
        return _under_way(assignment, entry, past, now)
    if entry and entry.state is ModelState.UNLOADING:
        return Replica(assignment, State.PENDING)
    if past.failure and (end := retry_at(past.failure, now)) > now:
        return Replica(assignment, State.FAILED, error=past.failure.error, until=end)
    if past.result and not past.result.ok:
        wait = float(past.result.value.get("retryAfter", 0.0))
        return Replica(assignment, State.FAILED, error=past.result.message, failed=True, wait=wait)
    return _awaited(assignment, entry, past, now)


def retry_at(failure: LoadFailure, now: datetime) -> datetime:
    """Return when a load that failed may be tried again."""
    pause = max(doubled(failure.count, _FIRST_PAUSE, _LONGEST_PAUSE), float(failure.wait))
    return moment(failure.since, now) + timedelta(seconds=pause)


def moment(text: str, now: datetime) -> datetime:
    """Return a stored time, and now for one that makes no sense or lies ahead: clocks may be set back."""
    try:
        return min(datetime.fromisoformat(text), now)
    except (ValueError, TypeError):
        return now


def _under_way(assignment: Assignment, entry: Loaded, past: Past, now: datetime) -> Replica:
    state = _SHOWN[entry.state]
    if state is State.READY:
        return Replica(assignment, state)
    same = past.shown is not None and (past.shown.state, past.shown.progress) == (state, entry.progress)
    left = STALL_SECONDS - past.waited(now) if same else STALL_SECONDS
    if left <= 0:
        return Replica(assignment, State.FAILED, error="the load makes no progress", failed=True)
    return Replica(assignment, state, entry.progress, until=now + timedelta(seconds=left))


def _awaited(assignment: Assignment, entry: Loaded | None, past: Past, now: datetime) -> Replica:
    """Return the state of a replica that is to be loaded: the host does not list it, or lists an earlier failure."""
    was = past.shown.state if past.shown else State.PENDING
    if entry and was in _UNDER_WAY:
        return Replica(assignment, State.FAILED, error=entry.error, failed=True)
    if not past.result or was is not State.PENDING:
        return Replica(assignment, State.PENDING, request=True)
    left = LISTED_SECONDS - past.waited(now)
    if left > 0:
        return Replica(assignment, State.PENDING, request=True, until=now + timedelta(seconds=left))
    error = entry.error if entry else "the host has accepted the model and does not list it"
    return Replica(assignment, State.FAILED, error=error, failed=True)
