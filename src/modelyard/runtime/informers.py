"""One cache and one watch for every resource that a kind needs; what a change affects is enqueued.

`manager` runs them, as leader and as standby. Their counterpart are the shared informers of client-go and the event
handlers of controller-runtime. A change of an object enqueues the object itself if it is of one of our kinds, its
owner, and the objects that read it.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import structlog

from modelyard.core import names
from modelyard.core.resources import POD, Key, Resource
from modelyard.kube.errors import NotFound
from modelyard.kube.watch import Target, follow
from modelyard.runtime.cache import Cache, owner_of
from modelyard.runtime.dependents import Dependents, Item

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Kind
    from modelyard.kube.client import Client
    from modelyard.kube.errors import KubeError
    from modelyard.runtime.cache import OwnerKey
    from modelyard.runtime.queue import Queue

_log = structlog.get_logger()


class Informers:
    """Keeps the caches equal to the cluster, and enqueues the objects that have to be reconciled while we lead."""

    def __init__(
        self, kinds: Mapping[str, Kind], queue: Queue[Item], forget: Collection[Callable[[str], None]]
    ) -> None:
        self._kinds, self._queue, self._forget = kinds, queue, forget
        self.dependents = Dependents()
        self._started: set[str] = set()
        self._is_leader = False
        resources = dict.fromkeys(resource for kind in kinds.values() for resource in kind.watches)
        self.caches = {
            resource: Cache(resource, partial(self._on_change, resource), partial(self._on_write, resource))
            for resource in resources
        }
        self._custom_resources = {kind.resource for kind in kinds.values()}
        self._full_names: dict[Item, Item] = {}
        """Objects with long names, by the shortened name that the labels of their pods hold."""
        read = self._custom_resources.union(r for kind in kinds.values() for r in kind.looks_at if not r.by_name)
        made = {child for kind in kinds.values() for child in (*kind.children, *kind.creates)}
        self._by_label = (made - read) | {POD}

    async def run(self, client: Client, namespace: str, restarted: Callable[[Resource], None]) -> None:
        """Watch all resources until cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource, cache in self.caches.items():
                target = Target(resource, namespace, names.OURS if resource in self._by_label else "")
                group.create_task(follow(client, target, _WatchSink(self, cache), restarted=restarted))

    def troubles(self) -> list[str]:
        """Return one line for each resource that is not synced or cannot be watched; empty: all is well."""
        waiting = (f"{cache.resource.label} is not synced yet" for cache in self.caches.values() if not cache.synced)
        failing = (
            f"{cache.resource.label}: {_explained(cache.error)}" for cache in self.caches.values() if cache.error
        )
        return sorted({*failing, *waiting})

    @contextmanager
    def leading(self, forget: Callable[[Item], None]) -> Iterator[None]:
        """Enqueue every object of every kind that has started, and then what changes, while the block lasts.

        A standby enqueues nothing: it has no workers, so its queue would grow with every object that ever came and
        went. For the same reason `forget` is called for every object in the end: no worker would do it when one goes.
        """
        self._is_leader = True
        for name in self._started:
            self._enqueue_kind(name)
        try:
            yield
        finally:
            self._is_leader = False
            for name in self._started:
                for item in self._objects_of(name):
                    forget(item)

    def wake(self, item: Item, within: float = 0.0, *, urgent: bool = False) -> None:
        """Enqueue one object, now or within some seconds. Ignored while we do not lead or its kind has not started,

        because the start of either enqueues all objects.
        """
        if not self._is_leader or item.kind not in self._started:
            return
        if within:
            self._queue.add_after(item, within)
        else:
            self._queue.add(item, urgent=urgent)

    def retry_failed(self) -> None:
        """Retry at once what failed while the API server was away, instead of after a back-off of up to a minute."""
        self._queue.retry_now()

    def start_synced_kinds(self) -> None:
        """Start every kind whose caches are all synced by now: before that, an absent object proves nothing."""
        for name, kind in self._kinds.items():
            if name not in self._started and all(self.caches[resource].synced for resource in kind.watches):
                self._started.add(name)
                _log.info("serving", kind=name, objects=len(self.caches[kind.resource]))
                self._enqueue_kind(name)

    def definition_changed(self, resource: Resource) -> None:
        """Enqueue every object of the kinds that use an optional resource whose definition has come or gone."""
        for name, kind in self._kinds.items():
            if resource in kind.watches:
                self._enqueue_kind(name)
        self.start_synced_kinds()

    def _enqueue_kind(self, name: str) -> None:
        for item in self._objects_of(name):
            self.wake(item)

    def _objects_of(self, name: str) -> list[Item]:
        return [Item(name, stored.meta.key) for stored in self.caches[self._kinds[name].resource].all()]

    def _on_change(self, resource: Resource, old: Stored | None, new: Stored | None) -> None:
        self._index_full_name(resource, old, new)
        woken = self.dependents.woken_by(resource, old, new) | dict.fromkeys(
            self._object_and_owner(resource, old, new), 0.0
        )
        for item, within in woken.items():
            self.wake(item, within, urgent=self._is_spec_edit(item, old, new))
        if old is not None and (new is None or new.meta.uid != old.meta.uid):
            for forget in self._forget:
                forget(old.meta.uid)

    def _on_write(self, resource: Resource, old: Stored | None, new: Stored | None) -> None:
        """Wake the readers of an object that we wrote, but not the object that it was written for, which knows it."""
        if self._shows_foreign_status(resource, old, new):
            self._on_change(resource, old, new)
            return
        concerned = self._object_and_owner(resource, old, new)
        writers = self._writers(resource, old, new, concerned)
        woken = self.dependents.woken_by(resource, old, new) | dict.fromkeys(concerned, 0.0)
        for item, within in woken.items():
            if item not in writers:
                self.wake(item, within)

    def _writers(self, resource: Resource, old: Stored | None, new: Stored | None, concerned: set[Item]) -> set[Item]:
        """Return which of an object and its owner a write was made for.

        An object of ours that another one of ours owns is written for both: by its owner as a child, which it has to be
        reconciled for, and by itself for its status and its finalizer, which its owner goes by.
        """
        itself = set().union(*(self._items_of(resource, stored) for stored in (old, new) if stored))
        if not itself or itself == concerned:
            return concerned
        own = old and new and (old.status, old.meta.finalizers) != (new.status, new.meta.finalizers)
        return itself if own else concerned - itself

    def _shows_foreign_status(self, resource: Resource, old: Stored | None, new: Stored | None) -> bool:
        """Return whether the response to a write shows a status of a child that we did not know.

        Another controller wrote it after we read the child. The plan was made without it, and the watch event with it
        will change nothing in the cache, so this is the only moment to wake the owner.
        """
        return bool(old and new and resource not in self._custom_resources and old.status != new.status)

    def _is_spec_edit(self, item: Item, old: Stored | None, new: Stored | None) -> bool:
        """Return whether the spec of this very object was edited. It goes first: a user waits for it."""
        if old is None or new is None or old.meta.generation == new.meta.generation:
            return False
        return item.key == new.meta.key and self._kinds[item.kind].resource == new.resource

    def _object_and_owner(self, resource: Resource, old: Stored | None, new: Stored | None) -> set[Item]:
        items = set()
        for stored in (old, new):
            if stored is None:
                continue
            items |= self._items_of(resource, stored)
            owner = owner_of(stored)
            if owner and owner.kind in self._kinds:
                items.add(self._owner_item(stored, owner))
        return items

    def _owner_item(self, child: Stored, owner: OwnerKey) -> Item:
        namespace = owner.namespace if self._kinds[owner.kind].resource.namespaced else ""
        return self._with_full_name(child, Item(owner.kind, Key(namespace, owner.name)))

    def _items_of(self, resource: Resource, stored: Stored) -> set[Item]:
        return {Item(name, stored.meta.key) for name, kind in self._kinds.items() if kind.resource == resource}

    def _with_full_name(self, child: Stored, short: Item) -> Item:
        """Return an owner by its full name: labels hold a long one only in its shortened form."""
        owner = child.meta.controller
        if owner and child.resource != POD:
            return Item(short.kind, Key(short.key.namespace, owner.name))
        return self._full_names.get(short, short)

    def _index_full_name(self, resource: Resource, old: Stored | None, new: Stored | None) -> None:
        current = new or old
        if current is None or names.short(current.meta.name) == current.meta.name:
            return
        for item in self._items_of(resource, current):
            short = Item(item.kind, Key(item.key.namespace, names.short(item.key.name)))
            if new:
                self._full_names[short] = item
            else:
                self._full_names.pop(short, None)


def _explained(error: KubeError) -> str:
    return "the cluster does not serve it; is its CRD installed?" if isinstance(error, NotFound) else str(error)


class _WatchSink:
    """The sink of one watch: its cache, and the informers, which must know when it is synced or the watch fails."""

    def __init__(self, informers: Informers, cache: Cache) -> None:
        self._informers, self._cache = informers, cache
        self.upsert, self.remove = cache.upsert, cache.remove

    def replace(self, items: list[Stored], revision: int) -> None:
        """Take a LIST, and start the kinds that waited for it."""
        was_served = self._cache.served
        self._cache.replace(items, revision)
        if not was_served:
            self._informers.definition_changed(self._cache.resource)
        self._informers.start_synced_kinds()

    def trouble(self, error: KubeError | None) -> None:
        """Record why the watch fails; None: it works again. An optional resource that is not served is no failure."""
        if isinstance(error, NotFound) and self._cache.resource.optional:
            _log.info("not served", resource=self._cache.resource.label)
            self._cache.definition_removed()
            self._informers.definition_changed(self._cache.resource)
            return
        self._cache.trouble(error)
        if error:
            _log.warning("cannot follow", resource=self._cache.resource.label, error=_explained(error))
        else:
            _log.info("following again", resource=self._cache.resource.label)
            self._informers.retry_failed()
