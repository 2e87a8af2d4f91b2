"""The pulse of our own process: how much of the time it did not get to run, because it was stopped or starved.

`poller` looks at it before it believes a bad answer. A time limit of ours may run out while the answer of a healthy
server waits to be read, and then the silence is ours.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from modelyard.net.poller import Clock

BEAT_SECONDS: Final = 0.5


class Pulse:
    """Beats while it is wanted, and adds up by how much beats are late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wanted = asyncio.Event()
        self._late = 0.0
        self._due = inf

    def want(self, wanted: bool) -> None:
        """Beat from now on, or rest: a process that asks nothing has nothing to excuse."""
        if wanted:
            self._wanted.set()
        else:
            self._wanted.clear()

    def lost(self) -> float:
        """Return the seconds that were lost so far, with those of a beat that is late right now.

        After a stop, other tasks may run before the beat does.
        """
        return self._late + max(0.0, self._clock.now() - self._due)

    async def run(self) -> NoReturn:
        """Beat until cancelled."""
        while True:
            await self._wanted.wait()
            self._due = self._clock.now() + BEAT_SECONDS
            await self._clock.wait(asyncio.Event(), BEAT_SECONDS)
            self._late, self._due = self.lost(), inf
