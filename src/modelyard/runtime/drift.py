"""What is remembered of our writes to a child.

It tells when to stop: a field that the server does not keep, and a field that somebody keeps changing back. All of it
may be forgotten at any time; a restart costs one write more, never a wrong one.
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
REPAIR_WINDOW: Final = 600.0
"""A fight is left alone for so long: the other writer may be gone by then."""


class Drift:
    """Remembers, for every child, what became of our writes."""

    def __init__(self, clock: Clock, count: Callable[[str, str], None]) -> None:
        self._clock, self._count = clock, count
        self._not_kept: dict[str, tuple[str, str]] = {}
        self._repairs: dict[str, deque[float]] = {}
        self._prunable: set[str] = set()

    def begin_repair(self, live: Stored, difference: str) -> Problem | None:
        """Return why a difference is not worth another write; None: write, and remember that we did."""
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
        """Look at the answer to a write of ours, and remember when it does not hold what we wrote."""
        if difference is None:
            self._not_kept.pop(answer.meta.uid, None)
            return None
        self._not_kept[answer.meta.uid] = (answer.meta.annotation(names.INTENT), difference)
        self._count("not_kept", answer.resource.kind)
        return _not_kept(answer, difference)

    def is_prunable(self, live: Stored) -> bool:
        """Return whether an apply is known to remove what it drops from this child."""
        return live.meta.uid in self._prunable

    def mark_prunable(self, live: Stored) -> None:
        """Remember that the field ownership of this child was put right."""
        self._prunable.add(live.meta.uid)

    def forget(self, uid: str) -> None:
        """Drop what is remembered of a child that is gone.

        Not the repairs, which end by themselves: a child whose label somebody keeps taking away seems gone each time.
        """
        self._not_kept.pop(uid, None)
        self._prunable.discard(uid)


def _not_kept(live: Stored, difference: str) -> Problem:
    return Problem(
        Reason.FIELD_NOT_KEPT,
        f"the API server does not keep {difference} of {live.resource.kind} {live.meta.name} as it was written",
        "look for an admission webhook that changes it, or a feature that this cluster has switched off",
    )


def _contested(live: Stored, difference: str) -> Problem:
    return Problem(
        Reason.FIELD_CONTESTED,
        f"somebody keeps changing {difference} of {live.resource.kind} {live.meta.name} (put back {MAX_REPAIRS} times)",
        "find who else writes it (`kubectl get --show-managed-fields`) and stop one of the two",
    )
