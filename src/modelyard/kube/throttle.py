"""The throttle of the client: obeys `Retry-After` for all objects together, one resource at a time.

Hundreds of objects may want the same resource. If each of them had to be told 429 by itself, they would be the load
that the server complains about. By resource, because a CRD that is being set up answers 429 too, and nothing else must
wait for it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from modelyard.kube.errors import StillBusy, TooManyRequests

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SECONDS: Final = 60.0
"""The longest `Retry-After` that is obeyed."""


class Throttle:
    """Remembers until when requests for each resource have to wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def check(self, verb: str, resource: str) -> None:
        """Raise `StillBusy` while the time that the server named has not passed."""
        left = self._until.get(resource, 0.0) - self._clock()
        if left > 0:
            message = f"{verb} {resource}: the API server is busy and asked us to wait"
            raise StillBusy(429, "TooManyRequests", message, retry_after=left)

    def record(self, resource: str, error: Exception) -> None:
        """Take note of an answer; only a 429 says when to come back."""
        if isinstance(error, TooManyRequests):
            self._until[resource] = self._clock() + min(error.retry_after, MAX_SECONDS)
