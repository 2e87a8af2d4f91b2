"""Hashes of Secrets that many objects compare with one another, kept for two minutes so that each is read once.

`gather` asks it for the reads that are `Named.compared`. Among some hundred objects, each of which compares its Secret
with those of all others, every one would otherwise be read once for each of the others, again and again. No value is
kept, only what `conceal` makes of it: hashes with a salt that no other process knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core.objects import Stored
from modelyard.kube.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from modelyard.core.resources import Key
    from modelyard.runtime.clock import Clock

KEPT_SECONDS: Final = 120.0
"""Twice as long as an object waits before it reads its own Secret again, which renews what is kept of it."""


class _Known(Struct, frozen=True):
    since: float
    secret: Stored | None = None
    refused: Forbidden | None = None


class ComparedSecrets:
    """What is known of Secrets that are compared, the oldest first."""

    def __init__(self, clock: Clock, conceal: Callable[[Stored], Stored]) -> None:
        self._clock, self._conceal = clock, conceal
        self._known: dict[Key, _Known] = {}

    async def get(self, key: Key, read: Callable[[Key], Awaitable[Stored | None]]) -> Stored | None:
        """Return a Secret with hashes as values, as it was two minutes ago at most; None: it does not exist."""
        self._drop_outdated()
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = await self._read(key, read)
        if known.refused:
            raise known.refused.with_traceback(None)
        return known.secret

    def renew(self, key: Key, live: Stored | None) -> None:
        """Keep a Secret as an object has just read it for itself, if it is one that others compare with theirs."""
        if self._known.pop(key, None):
            self._known[key] = self._concealed(live)

    async def _read(self, key: Key, read: Callable[[Key], Awaitable[Stored | None]]) -> _Known:
        try:
            return self._concealed(await read(key))
        except Forbidden as error:
            return _Known(self._clock.monotonic(), refused=error)

    def _concealed(self, live: Stored | None) -> _Known:
        return _Known(self._clock.monotonic(), self._conceal(live) if live else None)

    def _drop_outdated(self) -> None:
        start = self._clock.monotonic() - KEPT_SECONDS
        while self._known and next(iter(self._known.values())).since <= start:
            del self._known[next(iter(self._known))]
