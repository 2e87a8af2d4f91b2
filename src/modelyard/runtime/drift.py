"""What became of our writes to children, so that `apply` knows when to stop repairing.

Two writers with server-side apply by force would fight for ever over a field. So a field that the API server does not
keep is not written again, and one that another client keeps changing is left alone for a while. All of this may be
forgotten at any time: a restart costs one write more, never a wrong one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from modelyard.core import names
from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.core.objects import Stored
    from modelyard.runtime.clock import Clock

MAX_REPAIRS: Final = 10
"""How often a child is repaired within the window."""
REPAIR_WINDOW: Final = 600.0
"""Seconds. After as many, repairs begin again: the other writer may be gone by then."""


class Drift:
    """What became of our writes, for every child by UID."""

    def __init__(self, clock: Clock, count: Callable[[str, str], None]) -> None:
        self._clock, self._count = clock, count
        self._not_kept: dict[str, tuple[str, str]] = {}
        """By UID: the intent that was written, and the field that the response did not hold."""
        self._repairs: dict[str, deque[float]] = {}
        self._prunable: set[str] = set()

    def begin_repair(self, live: Stored, difference: str) -> Problem | None:
        """Record that a field of a child is about to be repaired, and return None; or return why it must not be."""
        if self._not_kept.get(live.meta.uid) == (live.meta.annotation(names.INTENT), difference):
            return _not_kept(live, difference)
        now = self._clock.monotonic()
        self._repairs = {uid: times for uid, times in self._repairs.items() if now - times[-1] < REPAIR_WINDOW}
        times = self._repairs.setdefault(live.meta.uid, deque(maxlen=MAX_REPAIRS))
        if len(times) == MAX_REPAIRS and now - times[0] < REPAIR_WINDOW:
            return _contested(live, difference)
        times.append(now)
        self._count("repaired", live.resource.kind)
        return None

    def record_response(self, answer: Stored, difference: str | None) -> Problem | None:
        """Record the response to a write, and return a problem if a field is not as it was written; None: all are."""
        if difference is None:
            self._not_kept.pop(answer.meta.uid, None)
            return None
        self._not_kept[answer.meta.uid] = (answer.meta.annotation(names.INTENT), difference)
        self._count("not_kept", answer.resource.kind)
        return _not_kept(answer, difference)

    def is_prunable(self, live: Stored) -> bool:
        """Return whether an apply removes the fields of this child that it no longer states."""
        return live.meta.uid in self._prunable

    def mark_prunable(self, live: Stored) -> None:
        """Record that the managedFields of this child were put right."""
        self._prunable.add(live.meta.uid)

    def forget(self, uid: str) -> None:
        """Drop what is known of a child that is gone.

        Repairs are kept until their window has passed: a child that keeps losing its label seems gone each time, and
        the repairs would never add up.
        """
        self._not_kept.pop(uid, None)
        self._prunable.discard(uid)


def _not_kept(live: Stored, difference: str) -> Problem:
    return Problem(
        Reason.FIELD_NOT_KEPT,
        f"the API server did not store {difference} of {live.resource.kind} {live.meta.name} as written",
        "check for an admission webhook that changes it, or a disabled feature gate",
    )


def _contested(live: Stored, difference: str) -> Problem:
    child = f"{live.resource.kind} {live.meta.name}"
    return Problem(
        Reason.FIELD_CONTESTED,
        f"another client keeps changing {difference} of {child} (restored {MAX_REPAIRS} times)",
        "find it with `kubectl get --show-managed-fields`, and stop one of the two writers",
    )
