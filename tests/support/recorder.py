"""Recorders: each watches resources from before a test begins and forgets nothing.

They do not use the watches of `modelyard.kube`, so that a bug there cannot hide itself. They survive restarts of the
API server, and say so when they may have missed something.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from modelyard.local.raw_client import RawClientError
from tests.support.invariants import Version, by_component, duplicates, untruths

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from modelyard.core.resources import Resource

Json = dict[str, Any]
_PAUSE_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0
_WAIT_SECONDS = 90.0
"""After a restart of the API server, controllers wait for up to a minute before they try again to follow it."""
_NAMESPACES = 20
"""Of so many namespaces, the latest, what happened is kept until a recorder asks for it."""


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


class _Watches:
    """Lists resources and goes on from there: tells every version, and when one may have been missed."""

    def __init__(
        self,
        source: Source,
        resources: Iterable[Resource],
        namespace: str,
        note: Callable[[Version], Awaitable[None]],
        miss: Callable[[Resource, str], Awaitable[None]],
    ) -> None:
        self._source, self._resources, self._namespace = source, tuple(resources), namespace
        self._note, self._miss = note, miss

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch for as long as the block lasts. The block starts when everything there is has been told."""
        # Not a TaskGroup: it would wrap a failed assertion of the test in an exception group.
        tasks = [asyncio.create_task(self._follow(item, await self._list(item))) for item in self._resources]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _list(self, resource: Resource) -> str:
        # For a moment after a definition has changed, its storage answers 429.
        found = await _patiently(lambda: self._source.get(resource.path(self._namespace)))
        for item in found["items"]:
            await self._note(Version("ADDED", resource.kind, item))
        return str(found["metadata"]["resourceVersion"])

    async def _follow(self, resource: Resource, revision: str) -> None:
        while True:
            try:
                async for event in self._source.follow(self._watch_path(resource, revision)):
                    revision = await self._take(resource, event) or revision
            except (RawClientError, TimeoutError):
                await asyncio.sleep(_PAUSE_SECONDS)

    def _watch_path(self, resource: Resource, revision: str) -> str:
        query = f"watch=true&allowWatchBookmarks=true&resourceVersion={revision}"
        return f"{resource.path(self._namespace)}?{query}"

    async def _take(self, resource: Resource, event: Json) -> str | None:
        """Tell an event, and return where to go on from; None: from where we are."""
        if event["type"] == "ERROR":
            await self._miss(resource, f"the watch of {resource.label} cannot go on: {event['object'].get('message')}")
            await asyncio.sleep(_PAUSE_SECONDS)
            return await self._list(resource)
        if event["type"] != "BOOKMARK":
            await self._note(Version(event["type"], resource.kind, event["object"]))
        revision: str | None = event["object"]["metadata"].get("resourceVersion")
        return revision


class Witness:
    """Watches resources of a whole cluster for as long as tests run, for the recorder of each.

    To watch them anew for each test cost more than most tests. For built-in resources alone: the watch of one whose
    definition changes cannot go on, and that would be the end of every recorder.
    """

    def __init__(self, source: Source, resources: Iterable[Resource]) -> None:
        self.resources = frozenset(resources)
        self._watches = _Watches(source, self.resources, "", self._note, self._miss)
        self._recorders: dict[str, Recorder | None] = {}
        """By namespace; None: it has ended, and what happens there afterwards matters to no test."""
        self._early: dict[str, list[Version]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Witness]:
        """Watch for as long as the block lasts."""
        async with self._watches.running():
            yield self

    @asynccontextmanager
    async def telling(self, recorder: Recorder, namespace: str) -> AsyncIterator[None]:
        """Tell a recorder what happens in a namespace, and first what has happened there since we watch."""
        assert namespace not in self._recorders, f"{namespace} has a recorder already"
        recorder.log += self._early.pop(namespace, [])
        self._recorders[namespace] = recorder
        try:
            yield
        finally:
            self._recorders[namespace] = None

    async def _note(self, version: Version) -> None:
        if version.namespace in self._recorders:
            if recorder := self._recorders[version.namespace]:
                await recorder.note(version)
            return
        self._early.setdefault(version.namespace, []).append(version)
        if len(self._early) > _NAMESPACES:
            del self._early[next(iter(self._early))]

    async def _miss(self, resource: Resource, why: str) -> None:
        for recorder in [each for each in self._recorders.values() if each]:
            await recorder.miss(resource, why)
        for namespace, versions in self._early.items():
            # It is listed anew.
            self._early[namespace] = [version for version in versions if version.kind != resource.kind]


class Recorder:
    """The history of all objects of some resources, cluster-wide or in one namespace.

    What a witness of the whole cluster sees already is taken from it.
    """

    def __init__(
        self, source: Source, resources: Iterable[Resource], namespace: str = "", witness: Witness | None = None
    ) -> None:
        seen = witness.resources if witness else ()
        own = [resource for resource in resources if resource not in seen]
        self._watches = _Watches(source, own, namespace, self.note, self.miss)
        self._told = witness.telling(self, namespace) if witness else nullcontext()
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
        timeout: float = _WAIT_SECONDS,  # noqa: ASYNC109 - the bound of a test, told in its own words
    ) -> Json | None:
        """Wait until an object (None: absent) is as wanted, if only for a moment, and return it as it was then."""
        place, looked_at = (resource.kind, namespace, name), len(self.log)
        current = self.now(resource, namespace, name)
        try:
            async with asyncio.timeout(timeout), self._changed:
                while not _holds(predicate, current):
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
            return next((each for each in later if _holds(predicate, each)), None)

        await self.until(lambda: found() is not None)
        version = found()
        assert version
        return version

    async def until(self, holds: Callable[[], bool], timeout: float = _WAIT_SECONDS) -> None:  # noqa: ASYNC109
        """Wait until something holds of the record. Each resource comes by a watch of its own, in its own time."""
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(lambda: self._gap or _holds(holds))
        except TimeoutError:
            last = "\n".join(f"{version.event} {version} {version.status}" for version in self.log[-20:])
            raise AssertionError(f"it never held; what was recorded last:\n{last}") from None
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
        async with self._told, self._watches.running():
            yield self
        self._assert_complete()

    async def note(self, version: Version) -> None:
        """Keep a version."""
        self.log.append(version)
        await self._tell()

    async def miss(self, _: Resource, why: str) -> None:
        """Say that versions may have been missed."""
        self._gap = why
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


def _holds(predicate: Callable[..., bool], *item: Json | None) -> bool:
    """Whether something holds of an object; of fields that it does not have yet, nothing does."""
    try:
        return predicate(*item)
    except (KeyError, IndexError):
        return False


def _revision(item: Json) -> int:
    return int(item["metadata"]["resourceVersion"])


@asynccontextmanager
async def recording(
    source: Source, resources: Iterable[Resource], namespace: str = "", witness: Witness | None = None
) -> AsyncIterator[Recorder]:
    """Record these resources for as long as the block lasts."""
    async with Recorder(source, resources, namespace, witness).running() as recorder:
        yield recorder
