"""One cache and one watch for every resource that some kind needs, and the waking of whoever depends on a change."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import structlog

from modelyard.core import names
from modelyard.core.resources import POD, Key, Resource
from modelyard.kube.errors import NotFound
from modelyard.kube.watch import Target, follow
from modelyard.runtime.cache import Cache, owner_of
from modelyard.runtime.interest import Interest, Item

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from modelyard.core.stored import Stored
    from modelyard.kinds.contract import Kind
    from modelyard.kube.client import Client
    from modelyard.kube.errors import KubeError
    from modelyard.runtime.queue import Queue

_log = structlog.get_logger()

OURS = f"{names.MANAGED_BY}={names.MANAGER}"


class Watching:
    """Keeps the caches equal to the cluster and the queue full of what has to be looked at."""

    def __init__(
        self, kinds: Mapping[str, Kind], queue: Queue[Item], forget: Collection[Callable[[str], None]]
    ) -> None:
        self._kinds, self._queue, self._forget = kinds, queue, forget
        self.interest = Interest()
        self._ready: set[str] = set()
        resources = dict.fromkeys(resource for kind in kinds.values() for resource in kind.watches)
        self.caches = {
            resource: Cache(resource, partial(self._changed, resource), partial(self._written, resource))
            for resource in resources
        }
        looked_at = {resource for kind in kinds.values() for resource in (kind.resource, *kind.looks_at)}
        made = {child for kind in kinds.values() for child in (*kind.children, *kind.creates)}
        self._ours = (made - looked_at) | {POD}

    async def run(self, client: Client, namespace: str, restarted: Callable[[Resource], None]) -> None:
        """Follow everything until cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource, cache in self.caches.items():
                target = Target(resource, namespace, OURS if resource in self._ours else "")
                group.create_task(follow(client, target, _Listener(self, cache), restarted=restarted))

    def troubles(self) -> list[str]:
        """Return what cannot be followed, and why, in words."""
        waiting = (f"{cache.resource.label} is not synced yet" for cache in self.caches.values() if not cache.synced)
        failing = (
            f"{cache.resource.label}: {_explained(cache.error)}" for cache in self.caches.values() if cache.error
        )
        return sorted({*failing, *waiting})

    def enqueue_all(self) -> None:
        """Look at every object of every kind that is served."""
        for name in self._ready:
            self._enqueue_kind(name)

    def wake(self, item: Item, within: float = 0.0, *, urgent: bool = False) -> None:
        """Look at one object, unless its kind is not served yet: then it is looked at as soon as it is."""
        if item.kind not in self._ready:
            return
        if within:
            self._queue.add_after(item, within)
        else:
            self._queue.add(item, urgent=urgent)

    def recovered(self) -> None:
        """Try at once what failed while the API server was away; a back-off of a minute would be a minute lost."""
        self._queue.hurry()

    def synced(self) -> None:
        """Begin to serve every kind of which all caches are filled now."""
        for name, kind in self._kinds.items():
            if name not in self._ready and all(self.caches[resource].synced for resource in kind.watches):
                self._ready.add(name)
                _log.info("serving", kind=name, objects=len(self.caches[kind.resource]))
                self._enqueue_kind(name)

    def _enqueue_kind(self, name: str) -> None:
        for stored in self.caches[self._kinds[name].resource].all():
            self._queue.add(Item(name, stored.meta.key))

    def _changed(self, resource: Resource, old: Stored | None, new: Stored | None) -> None:
        woken = self.interest.woken_by(resource, old, new) | dict.fromkeys(self._own(resource, old, new), 0.0)
        for item, within in woken.items():
            self.wake(item, within, urgent=self._is_edited(item, old, new))
        if old is not None and (new is None or new.meta.uid != old.meta.uid):
            for forget in self._forget:
                forget(old.meta.uid)

    def _written(self, resource: Resource, old: Stored | None, new: Stored | None) -> None:
        """Wake who reads what we wrote for somebody else. Whoever it was written for knows it."""
        writers = self._own(resource, old, new)
        for item, within in self.interest.woken_by(resource, old, new).items():
            if item not in writers:
                self.wake(item, within)

    def _is_edited(self, item: Item, old: Stored | None, new: Stored | None) -> bool:
        """Return whether somebody has changed this very object and waits for it, unlike whoever creates a thousand."""
        if old is None or new is None or old.meta.generation == new.meta.generation:
            return False
        return item.key == new.meta.key and self._kinds[item.kind].resource == new.resource

    def _own(self, resource: Resource, old: Stored | None, new: Stored | None) -> set[Item]:
        items = set()
        for stored in (old, new):
            if stored is None:
                continue
            items |= {Item(name, stored.meta.key) for name, kind in self._kinds.items() if kind.resource == resource}
            owner = owner_of(stored)
            if owner and owner.kind in self._kinds:
                items.add(Item(owner.kind, self._owner_key(stored, Key(owner.namespace, owner.name))))
        return items

    def _owner_key(self, child: Stored, short: Key) -> Key:
        """Return the owner's full name: labels hold only as much of a long one as fits."""
        owner = child.meta.controller
        return Key(short.namespace, owner.name) if owner and child.resource != POD else short


def _explained(error: KubeError) -> str:
    return "the cluster does not serve it; is its CRD installed?" if isinstance(error, NotFound) else str(error)


class _Listener:
    """A cache, with an ear for the moment when it is filled and for trouble."""

    def __init__(self, watching: Watching, cache: Cache) -> None:
        self._watching, self._cache = watching, cache
        self.upsert, self.remove = cache.upsert, cache.remove

    def replace(self, items: list[Stored], revision: int) -> None:
        """Take a full list."""
        self._cache.replace(items, revision)
        self._watching.synced()

    def trouble(self, error: KubeError | None) -> None:
        """Take note of trouble, and of its end."""
        self._cache.trouble(error)
        if error:
            _log.warning("cannot follow", resource=self._cache.resource.label, error=_explained(error))
        else:
            _log.info("following again", resource=self._cache.resource.label)
            self._watching.recovered()
