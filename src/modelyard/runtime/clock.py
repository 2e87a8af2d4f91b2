"""Time, as a value that is passed in: tests bring their own."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None:
        """Make it not happen."""


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""

    def monotonic(self) -> float:
        """Return seconds that never jump."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back after a while."""


class SystemClock:
    """The real clock, inside a running event loop."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never jump."""
        return time.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back after a while."""
        return asyncio.get_running_loop().call_later(seconds, callback)
