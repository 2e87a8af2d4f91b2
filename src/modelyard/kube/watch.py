"""List and watch: keep a sink equal to what the API server stores, until cancelled.

The counterpart of client-go's Reflector and of kube-rs' watcher; one runs per resource, in the runtime and in the node
of one machine. The first state comes over the same stream as the changes (WatchList) where the server can do that, else
from a paged LIST. A stream that ends is resumed where it ended; only when the server has forgotten that point, or has
not reached it because an old backup was restored, is everything read again. No error ends it: the sink is told of the
error, and of its end.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from msgspec import Struct

from modelyard.core.backoff import doubled
from modelyard.core.resources import Key, Resource
from modelyard.kube import codec
from modelyard.kube.client import selection
from modelyard.kube.errors import BadRequest, Gone, Invalid, KubeError, NotFound, TooManyRequests, Unavailable

if TYPE_CHECKING:
    from modelyard.core.objects import Stored
    from modelyard.kube.client import Client

_END_OF_INITIAL_EVENTS: Final = "k8s.io/initial-events-end"
_RECONNECT_EVERY: Final = 1.0
_FIRST_RETRY: Final = 0.2
_LONGEST_OBEYED: Final = 60.0
_GIVE_UP_RESUMING: Final = 5
_WATCH_SECONDS: Final = 300


class Target(Struct, frozen=True):
    """What to watch: a resource, in one namespace or (empty) in all, narrowed by selectors."""

    resource: Resource
    namespace: str = ""
    selector: str = ""
    field_selector: str = ""


class Sink(Protocol):
    """What is kept equal to the server: a cache, or client-go's Store."""

    def replace(self, items: list[Stored], revision: int) -> None:
        """Replace everything by these objects. The revision is lower than before after a restore of an old backup."""

    def upsert(self, item: Stored) -> None:
        """Store a new or changed object."""

    def remove(self, item: Stored) -> None:
        """Drop an object; its resource version is that of the deletion."""

    def trouble(self, error: KubeError | None) -> None:
        """Take note why the resource cannot be watched at the moment; None: it can be again."""


class Timing(Struct, frozen=True):
    """Time and chance, so that tests can choose them."""

    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    idle: float = 70.0
    """Silence after which a stream is taken for dead. Bookmarks come every minute."""
    initial: float = 15.0
    """How long the first state may take over a stream, before we ask for a list instead."""
    longest_wait: float = 30.0
    """The longest wait between tries while a resource or a rule is missing."""
    longest_outage_wait: float = 5.0
    """The same while the server is away: it comes back without notice, and every object waits for the watch then."""


Restarted = Callable[[Resource], None]
"""Called when a watch that was open has to be opened again."""


async def follow(
    client: Client, target: Target, sink: Sink, *, restarted: Restarted | None = None, timing: Timing | None = None
) -> NoReturn:
    """Keep the sink equal to the server, until cancelled."""
    follower = _Follower(client, target, sink, timing or Timing())
    while True:
        wait = await follower.once()
        if restarted and follower.was_open:
            restarted(target.resource)
        await follower.timing.sleep(wait)


class _NoInitialState(Exception):
    """The server did not send the first state over the stream."""


class _Follower:
    """Where one target stands: the revision to go on from, and the troubles so far."""

    def __init__(self, client: Client, target: Target, sink: Sink, timing: Timing) -> None:
        self.timing = timing
        self.was_open = False
        self._client, self._target, self._sink = client, target, sink
        self._revision: int | None = None  # None: everything has to be read (again)
        self._by_list = False
        self._failures = 0
        self._trouble: tuple[type[KubeError], str] | None = None
        self._reconnect_at = float("-inf")

    async def once(self) -> float:
        """Follow until the stream ends or something goes wrong; return how long to wait before the next time."""
        self.was_open = False
        try:
            await self._follow()
        except KubeError as error:
            return self._wait_after(error)
        self._failures = 0
        return self._wait_to_reconnect()

    async def _follow(self) -> None:
        if self._revision is not None and await self._is_ahead_of_server(self._revision):
            self._revision = None
        if self._revision is None and not self._by_list:
            await self._stream_all()
            return
        if self._revision is None:
            await self._list_all()
        query = {"resourceVersion": str(self._revision)}
        async with self._open(query) as lines:
            self._is_fine()
            await self._take_changes(lines)

    async def _is_ahead_of_server(self, revision: int) -> bool:
        """Return whether the server was put back to a state from before what we have seen.

        It would take our revision for one of the future, and be silent until its own numbers have grown past it.
        """
        target = self._target
        # Without the label selector: a server that finds nothing would look at everything it stores.
        page = await self._client.list_page(
            target.resource, target.namespace, limit=1, field_selector=target.field_selector
        )
        return page.revision < revision

    async def _stream_all(self) -> None:
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            async with self._open(query) as lines:
                self._begin(*await self._initial_state(lines))
                await self._take_changes(lines)
        except (BadRequest, Invalid, _NoInitialState):
            self._by_list = True

    async def _initial_state(self, lines: AsyncIterator[bytes]) -> tuple[list[Stored], int]:
        try:
            async with asyncio.timeout(self.timing.initial):
                return await self._collect(lines)
        except TimeoutError:
            # Servers that do not know WatchList take it for an ordinary watch and never send the bookmark.
            raise _NoInitialState from None
        except (Gone, TooManyRequests):
            raise
        except KubeError as error:
            if not error.status:
                raise  # the stream broke; that says nothing about WatchList
            # Servers on an old etcd accept it and then send an error event.
            raise _NoInitialState from error

    async def _collect(self, lines: AsyncIterator[bytes]) -> tuple[list[Stored], int]:
        found: dict[Key, Stored] = {}
        async for line in lines:
            happened, item = codec.event(self._target.resource, line)
            if happened == "BOOKMARK":
                if item.meta.annotation(_END_OF_INITIAL_EVENTS) == "true":
                    return list(found.values()), item.meta.revision
            elif happened == "DELETED":
                found.pop(item.meta.key, None)
            else:
                found[item.meta.key] = item
        raise Unavailable(0, "Ended", "the stream ended before everything was read")

    async def _list_all(self) -> None:
        target, items, token = self._target, [], ""
        while True:
            page = await self._client.list_page(
                target.resource, target.namespace, target.selector, token=token, field_selector=target.field_selector
            )
            items += page.items
            token = page.token
            if not token:
                break
        self._begin(items, page.revision)

    async def _take_changes(self, lines: AsyncIterator[bytes]) -> None:
        resource, sink = self._target.resource, self._sink
        async for line in _until_broken(lines):
            happened, item = codec.event(resource, line)
            if happened == "DELETED":
                sink.remove(item)
            elif happened != "BOOKMARK":
                sink.upsert(item)
            # Only now: a line that could not be taken must come again.
            self._revision = item.meta.revision
            self._failures = 0

    @asynccontextmanager
    async def _open(self, query: dict[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        target, seconds = self._target, int(_WATCH_SECONDS * (1 + self.timing.chance()))
        query |= {"allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        query |= selection(target.selector, target.field_selector)
        async with self._client.watch(target.resource, target.namespace, query, idle=self.timing.idle) as lines:
            self.was_open = True
            yield lines

    def _begin(self, items: list[Stored], revision: int) -> None:
        self._sink.replace(items, revision)
        self._revision, self._failures = revision, 0
        self._is_fine()

    def _is_fine(self) -> None:
        if self._trouble is not None:
            self._trouble = None
            self._sink.trouble(None)

    def _wait_to_reconnect(self) -> float:
        """Reconnect at once after a stream that lasted, but not more than about once a second."""
        now = self.timing.clock()
        wait = max(0.0, self._reconnect_at - now)
        if wait:
            wait += self.timing.chance() / 2
        self._reconnect_at = now + wait + _RECONNECT_EVERY
        return wait

    def _wait_after(self, error: KubeError) -> float:
        self._failures += 1
        if self._must_read_again(error):
            self._revision = None
        if isinstance(error, Gone):
            return self._wait_to_reconnect()
        self._report(error)
        asked = min(error.retry_after, _LONGEST_OBEYED) * (1 + self.timing.chance() / 4)
        return max(asked, self._back_off(error))

    def _must_read_again(self, error: KubeError) -> bool:
        # A resource that was absent lost its objects unseen. A server that keeps failing to resume, though it answers,
        # may never be able to, as after a restore of an old backup.
        stuck = error.status >= 500 and self._failures >= _GIVE_UP_RESUMING
        return stuck or isinstance(error, (Gone, NotFound))

    def _back_off(self, error: KubeError) -> float:
        passing = isinstance(error, (Unavailable, TooManyRequests))
        longest = self.timing.longest_outage_wait if passing else self.timing.longest_wait
        return doubled(self._failures, _FIRST_RETRY, longest) * (1 + self.timing.chance()) / 2

    def _report(self, error: KubeError) -> None:
        trouble = (type(error), error.reason)
        if trouble != self._trouble:
            self._trouble = trouble
            self._sink.trouble(error)


async def _until_broken(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass lines on until the connection ends, in whatever way: how it ended makes no difference to resuming."""
    try:
        async for line in lines:
            yield line
    except Unavailable:
        return
