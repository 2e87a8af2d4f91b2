"""Pauses between tries: the back-off and the interruptible sleep of everything in `local`.

The counterpart of client-go's `wait.Backoff`. Without jitter: on one machine only one process retries each thing, so
no herd of clients has to be spread.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from modelyard.core.backoff import doubled


class Backoff:
    """Delays in seconds that double from `first` up to `longest`."""

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest = first, longest
        self._failures = 0

    def delay(self) -> float:
        """Return the seconds to wait before the next try; the one after that waits twice as long."""
        self._failures += 1
        return doubled(self._failures, self._first, self._longest)

    def reset(self) -> None:
        """Begin with the first delay again, because a try has succeeded."""
        self._failures = 0


async def pause(seconds: float | None, until: asyncio.Event) -> None:
    """Sleep for some seconds, or less when an event is set meanwhile. None: sleep until the event is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await until.wait()
