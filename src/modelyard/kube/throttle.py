"""A server that asks us to wait is left alone until then.

Hundreds of objects may want the same resource. If each of them had to be told by itself to come back later, they would
be the load that the server complains about. One resource at a time: a definition that is being set up says the same,
and nothing else must wait for it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from modelyard.kube.errors import StillBusy, TooManyRequests

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SECONDS: Final = 60.0
"""No server is obeyed for longer than this."""


class Throttle:
    """Remembers until when each resource is not to be asked for."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def check(self, verb: str, resource: str) -> None:
        """Raise what the server would answer, without asking it, while the time that it named has not passed."""
        left = self._until.get(resource, 0.0) - self._clock()
        if left > 0:
            message = f"{verb} {resource}: the API server is busy and asked us to wait"
            raise StillBusy(429, "TooManyRequests", message, retry_after=left)

    def record(self, resource: str, error: Exception) -> None:
        """Take note of an answer that says when to come back."""
        if isinstance(error, TooManyRequests):
            self._until[resource] = self._clock() + min(error.retry_after, MAX_SECONDS)
