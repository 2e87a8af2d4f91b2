"""How long to wait before trying again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Backoff:
    """Doubling delays, each between half and the whole of its step so that failing objects do not march in step."""

    def __init__(self, first: float = 0.05, longest: float = 60.0, jitter: Callable[[], float] = random.random) -> None:
        self._first, self._longest, self._jitter = first, longest, jitter

    def delay(self, failures: int) -> float:
        """Return how long to wait after this many failures in a row."""
        step = min(self._longest, self._first * 2.0 ** min(failures - 1, 32))
        return step * (0.5 + 0.5 * self._jitter())
