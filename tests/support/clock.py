"""A clock that stands still until a test moves it."""

from __future__ import annotations

import heapq
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class VirtualTimer:
    """Something that will happen when the clock gets there, unless it is cancelled."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback, self.cancelled = callback, False

    def cancel(self) -> None:
        """Make it not happen."""
        self.cancelled = True


class VirtualClock:
    """A `modelyard.runtime.clock.Clock` for tests."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._order = 0
        self._timers: list[tuple[float, int, VirtualTimer]] = []

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return _BEGIN + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        """Return the seconds that the test let pass."""
        return self._passed

    def call_later(self, seconds: float, callback: Callable[[], None]) -> VirtualTimer:
        """Call back once so much time was let pass."""
        timer = VirtualTimer(callback)
        self._order += 1
        heapq.heappush(self._timers, (self._passed + seconds, self._order, timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass; what is due happens on the way, each at its own time."""
        end = self._passed + seconds
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            self._passed = max(self._passed, due)
            if not timer.cancelled:
                timer.callback()
        self._passed = end

    @property
    def pending(self) -> int:
        """How many timers are set."""
        return sum(not timer.cancelled for _, _, timer in self._timers)
