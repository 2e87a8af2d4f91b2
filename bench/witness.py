"""Someone who watches, so that it does not have to be asked when something has happened."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from modelyard.kube.watch import Target, follow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Key, Resource
    from modelyard.kube.client import Client
    from modelyard.kube.errors import KubeError

_SYNC_SECONDS = 30.0
_CHECK_SECONDS = 1.0


def longest_pause(visits: Iterable[Sequence[float]], since: float) -> float:
    """Return the longest time between two visits of one server that both came after a moment, in seconds."""
    return max(later - earlier for times in visits for earlier, later in pairwise(times) if earlier > since)


class Tally:
    """Counts the objects of which something holds now, and knows when there were enough."""

    def __init__(self, holds: Callable[[Stored], bool], wanted: int) -> None:
        self._holds, self._wanted = holds, wanted
        self._holding: set[Key] = set()
        self._lacking: dict[Key, Stored] = {}
        self._enough = asyncio.Event()
        self.reached = 0.0

    def __call__(self, item: Stored) -> None:
        """Take a new version of an object."""
        if not self._holds(item):
            self._holding.discard(item.meta.key)
            self._lacking[item.meta.key] = item
            self._enough.clear()
            return
        self._holding.add(item.meta.key)
        self._lacking.pop(item.meta.key, None)
        if len(self._holding) == self._wanted and not self._enough.is_set():
            self.reached = time.perf_counter()
            self._enough.set()

    async def enough(self, seconds: float, check: Callable[[], None]) -> None:
        """Wait until there are enough; `check` raises when there never will be."""
        try:
            async with asyncio.timeout(seconds):
                while not self._enough.is_set():
                    check()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._enough.wait(), _CHECK_SECONDS)
        except TimeoutError:
            held = f"only {len(self._holding)} of {self._wanted} objects are as wanted after {seconds:.0f} s"
            example = next((f"; {where}: {item.status}" for where, item in self._lacking.items()), "")
            raise TimeoutError(held + example) from None


class _Sink:
    """Passes every version of every object on."""

    def __init__(self, seen: Callable[[Stored], None]) -> None:
        self.upsert = seen
        self.synced = asyncio.Event()

    def replace(self, items: list[Stored], revision: int) -> None:
        """Take everything there is."""
        del revision
        for item in items:
            self.upsert(item)
        self.synced.set()

    def remove(self, item: Stored) -> None:
        """Leave deletions alone: nothing is deleted here."""

    def trouble(self, error: KubeError | None) -> None:
        """Say what disturbs the measurement."""
        if error:
            print(f"the witness cannot watch: {error}", file=sys.stderr)


@asynccontextmanager
async def watching(client: Client, resource: Resource, seen: Callable[[Stored], None]) -> AsyncIterator[None]:
    """Call `seen` with every version of every object of a resource, from before the block begins until it ends."""
    sink = _Sink(seen)
    task = asyncio.create_task(follow(client, Target(resource), sink))
    try:
        async with asyncio.timeout(_SYNC_SECONDS):
            await sink.synced.wait()
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
