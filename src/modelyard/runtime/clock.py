"""Time, passed in so that tests can bring a clock of their own. Queue, events, drift and gather take it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer(Protocol):
    """A callback that is due later, unless it is cancelled."""

    def cancel(self) -> None:
        """Drop the callback."""


class Clock(Protocol):
    """A wall clock, a monotonic clock and timers."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""

    def monotonic(self) -> float:
        """Return monotonic seconds: unlike `now`, they never jump."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, after so many seconds, and return the timer that can cancel it."""


class SystemClock:
    """The real clock, inside a running event loop."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return monotonic seconds: unlike `now`, they never jump."""
        return time.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, after so many seconds, and return the timer that can cancel it."""
        return asyncio.get_running_loop().call_later(seconds, callback)
