"""Back-off of objects whose reconcile failed: the rate limiter of the workqueue. `queue` asks it for delays."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from modelyard.core.backoff import doubled

if TYPE_CHECKING:
    from collections.abc import Callable


class RateLimiter:
    """Delays that double from `first` to `longest` seconds, with jitter, so that objects do not retry in step."""

    def __init__(self, first: float = 0.05, longest: float = 60.0, jitter: Callable[[], float] = random.random) -> None:
        self._first, self._longest, self._jitter = first, longest, jitter

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after this many failures in a row: between half of the step and all of it."""
        return doubled(failures, self._first, self._longest) * (0.5 + 0.5 * self._jitter())
