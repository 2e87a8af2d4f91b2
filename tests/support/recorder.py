"""A witness: it watches resources from before a test begins and forgets nothing.

It does not use `modelyard.kube`, so that a bug there cannot hide itself. It survives restarts of the API server, and
says so when it may have missed something.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from modelyard.local.raw_client import RawClientError
from tests.support.invariants import Version, by_component, duplicates, untruths

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from modelyard.core.resources import Resource

Json = dict[str, Any]
_PAUSE_SECONDS = 0.1
_PATIENCE_SECONDS = 10.0


class Source(Protocol):
    """What is recorded from: `modelyard.local.raw_client.RawClient`."""

    async def get(self, path: str) -> Json:
        """Read a list."""
        ...

    def follow(self, path: str) -> AsyncIterator[Json]:
        """Yield the events of a watch until it ends."""
        ...


class Missed(AssertionError):
    """The recorder was cut off for too long to know everything that happened."""


class Recorder:
    """The history of all objects of some resources, cluster-wide or in one namespace."""

    def __init__(self, source: Source, resources: Iterable[Resource], namespace: str = "") -> None:
        self._source, self._namespace = source, namespace
        self._resources = tuple(resources)
        self._changed = asyncio.Condition()
        self._gap = ""
        self.log: list[Version] = []
        """Every event in the order it arrived; within one resource, in the order it happened."""

    def history(self, resource: Resource, namespace: str, name: str) -> list[Version]:
        """Return all versions of one object, and of successors of the same name, oldest first."""
        place = (resource.kind, namespace, name)
        return [version for version in self.log if (version.kind, version.namespace, version.name) == place]

    def now(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Return an object as it was seen last, or None when it is not there."""
        versions = self.history(resource, namespace, name)
        return versions[-1].object if versions and versions[-1].event != "DELETED" else None

    def created(self, resource: Resource) -> Counter[str]:
        """Count by name how often an object came into being."""
        return self._tally(resource, "ADDED")

    def deleted(self, resource: Resource) -> Counter[str]:
        """Count by name how often an object went away."""
        return self._tally(resource, "DELETED")

    async def wait_for(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        predicate: Callable[[Json | None], bool],
        timeout: float = 30.0,  # noqa: ASYNC109 - the bound of a test, told in its own words
    ) -> Json | None:
        """Wait until an object (None: absent) is as wanted, if only for a moment, and return it as it was then."""
        place, looked_at = (resource.kind, namespace, name), len(self.log)
        current = self.now(resource, namespace, name)
        try:
            async with asyncio.timeout(timeout), self._changed:
                while not predicate(current):
                    version, looked_at = await self._entry(looked_at), looked_at + 1
                    if (version.kind, version.namespace, version.name) == place:
                        current = version.object if version.event != "DELETED" else None
        except TimeoutError:
            raise AssertionError(f"{' '.join(place)} never became as wanted; last: {current}") from None
        self._assert_complete()
        return current

    async def wait_for_later(self, item: Json, resource: Resource, predicate: Callable[[Json], bool]) -> Json:
        """Wait for a version after this one that is as wanted. It may be there already, and not be the last."""
        meta = item["metadata"]

        def found() -> Json | None:
            versions = self.history(resource, meta["namespace"], meta["name"])
            later = (version.object for version in versions if _revision(version.object) > _revision(item))
            return next(filter(predicate, later), None)

        await self.until(lambda: found() is not None)
        version = found()
        assert version
        return version

    async def until(self, holds: Callable[[], bool], timeout: float = 30.0) -> None:  # noqa: ASYNC109 - as above
        """Wait until something holds of the record. Each resource comes by a watch of its own, in its own time."""
        async with asyncio.timeout(timeout), self._changed:
            await self._changed.wait_for(lambda: self._gap or holds())
        self._assert_complete()

    async def _entry(self, number: int) -> Version:
        await self._changed.wait_for(lambda: self._gap or len(self.log) > number)
        self._assert_complete()
        return self.log[number]

    def _assert_complete(self) -> None:
        if self._gap:
            raise Missed(self._gap)

    def assert_invariants(self, role: Callable[[Version], str] = by_component) -> None:
        """Fail with every violation of what must hold at every moment."""
        violations = [*duplicates(self.log, role), *untruths(self.log)]
        assert not violations, "\n".join(violations)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Recorder]:
        """Record for as long as the block lasts. The block starts when everything there is has been seen."""
        # Not a TaskGroup: it would wrap a failed assertion of the test in an exception group.
        tasks = [asyncio.create_task(self._record(item, await self._list(item))) for item in self._resources]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._assert_complete()

    async def _list(self, resource: Resource) -> str:
        # For a moment after a definition has changed, its storage answers 429.
        found = await _patiently(lambda: self._source.get(resource.path(self._namespace)))
        for item in found["items"]:
            await self._note(resource, "ADDED", item)
        return str(found["metadata"]["resourceVersion"])

    async def _record(self, resource: Resource, revision: str) -> None:
        while not self._gap:
            try:
                async for event in self._source.follow(self._watch_path(resource, revision)):
                    await self._take(resource, event)
                    revision = event["object"]["metadata"].get("resourceVersion", revision)
            except RawClientError:
                await asyncio.sleep(_PAUSE_SECONDS)

    def _watch_path(self, resource: Resource, revision: str) -> str:
        query = f"watch=true&allowWatchBookmarks=true&resourceVersion={revision}"
        return f"{resource.path(self._namespace)}?{query}"

    async def _take(self, resource: Resource, event: Json) -> None:
        if event["type"] == "BOOKMARK":
            return
        if event["type"] == "ERROR":
            self._gap = f"the watch of {resource.label} cannot go on: {event['object'].get('message')}"
            await self._tell()
            return
        await self._note(resource, event["type"], event["object"])

    async def _note(self, resource: Resource, event: str, item: Json) -> None:
        self.log.append(Version(event, resource.kind, item))
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _tally(self, resource: Resource, event: str) -> Counter[str]:
        return Counter(version.name for version in self.log if version.kind == resource.kind and version.event == event)


async def _patiently(ask: Callable[[], Awaitable[Json]]) -> Json:
    """Return an answer, however often the server refuses for a while."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            try:
                return await ask()
            except RawClientError:
                await asyncio.sleep(_PAUSE_SECONDS)


def _revision(item: Json) -> int:
    return int(item["metadata"]["resourceVersion"])


@asynccontextmanager
async def recording(source: Source, resources: Iterable[Resource], namespace: str = "") -> AsyncIterator[Recorder]:
    """Record these resources for as long as the block lasts."""
    async with Recorder(source, resources, namespace).running() as recorder:
        yield recorder
