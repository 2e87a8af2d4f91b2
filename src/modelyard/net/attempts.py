"""What is known of a call that is made until it succeeds: the counterpart, for calls, of `hysteresis` for checks.

Pure: no clock, no tasks; the poller calls it with the time. Every result counts at once: it tells what a machine has
done, and no later one can contradict it.
"""

from __future__ import annotations

from math import inf
from typing import Final

from msgspec import Struct

from modelyard.core.backoff import doubled
from modelyard.core.checks import Answer

_SOONEST: Final = 1.0
_LONGEST: Final = 60.0
_JITTER: Final = 0.1


class Attempts(Struct, frozen=True):
    """The result of the latest attempt, None before the first, and how many failed."""

    answer: Answer | None = None
    failed: int = 0

    def after(self, answer: Answer, _now: float) -> Attempts:
        """Return the state after this result."""
        return Attempts(answer, 0 if answer.ok else self.failed + 1)

    def pause(self, _every: float, _now: float, random: float) -> float:
        """Return the seconds until the next attempt: for ever after a success, else a back-off with some jitter."""
        if not self.failed:
            return inf
        return doubled(self.failed, _SOONEST, _LONGEST) * (1 - _JITTER + 2 * _JITTER * random)
