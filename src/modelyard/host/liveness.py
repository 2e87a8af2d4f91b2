"""Whether an engine that was ready still is: one that hangs, or says that it is not well, has to be started again.

The counterpart is the liveness probe of a kubelet. `model_worker` makes one per start of an engine. No answer alone
proves nothing: the requests that wait for a slot of llama.cpp hold its few threads. So what it sends to clients counts
as a sign of life, and it has more time while anything is asked of it.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 30.0
"""How long an engine may be silent while nothing is asked of it."""
BUSY_SECONDS: Final = 600.0
"""How long it may be while it has requests: as long as OpenAI's clients wait for an answer in one piece. Older servers
of MLX do nothing else meanwhile."""
_IN_A_ROW: Final = 3


class Liveness:
    """The signs of life of one engine."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard = self._idle_since = clock()
        self._failed = self._bad = 0

    def heard(self) -> None:
        """Note that it has sent something to a client."""
        self._heard = self._clock()

    def rests(self) -> None:
        """Note that it has no request any more."""
        self._idle_since = self._clock()

    def is_dead(self, health: int, *, is_busy: bool) -> bool:
        """Take the status of an answer to a health check, 0 for none, and return whether the engine is to be ended."""
        if health == HTTPStatus.OK:
            self.heard()
            self._failed = self._bad = 0
            return False
        self._failed += 1
        self._bad += health > 0
        # Never by one alone: it may have timed out because the daemon itself was stopped for a while.
        return self._failed >= _IN_A_ROW and (self._bad >= _IN_A_ROW or self._is_silent(is_busy=is_busy))

    def _is_silent(self, *, is_busy: bool) -> bool:
        now = self._clock()
        is_idle_long = not is_busy and now - max(self._heard, self._idle_since) >= IDLE_SECONDS
        return is_idle_long or now - self._heard >= BUSY_SECONDS
