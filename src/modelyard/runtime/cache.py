"""The cache of one resource: the store and indexer of an informer, which our own writes go into as well.

`informers` makes one per resource and connects it to a watch; `apply` and `controller` put the responses to their
writes into it. client-go's stores know only the watch, so a reconcile there may read what it has just overwritten.

The price is the danger of going back in time. So an older version of an object never replaces a newer one, an object
that we deleted does not return, and a LIST that is older than a write of ours does not remove the object. Only a LIST
may go back, and it does after an old backup of etcd was restored.
"""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from modelyard.core import names
from modelyard.core.conditions import stored_condition
from modelyard.core.resources import POD, Key, Ref, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from modelyard.core.objects import Stored
    from modelyard.kube.errors import KubeError

    OnChange = Callable[[Stored | None, Stored | None], None]
    """Called with an object as it was before and as it is now. None: it was absent before, or is absent now."""


MAX_REMEMBERED: Final = 1000
"""How many tombstones are kept. An event of a deleted object is late by seconds at most, so the oldest can go."""

EVICTED_SECONDS: Final = 30.0
"""How long the owner of an evicted pod may still be shown it: long enough for a new leader to take over."""


class OwnerKey(NamedTuple):
    """Which of our objects a child belongs to, by name. `owned` tells earlier objects of that name apart."""

    kind: str
    namespace: str
    name: str


def owner_of(item: Stored) -> OwnerKey | None:
    """Return the owner of a child; None: it has no controller, or its labels do not name one of our objects.

    Pods are controlled by a ReplicaSet or a Job. We do not watch ReplicaSets, so the labels of the pod name the owner.
    """
    meta = item.meta
    if item.resource == POD:
        kind, instance = meta.label(names.KIND_LABEL), meta.label(names.INSTANCE_LABEL)
        return OwnerKey(kind, meta.namespace, instance) if kind and instance else None
    owner = meta.controller
    return OwnerKey(owner.kind.lower(), meta.namespace, names.short(owner.name)) if owner else None


class Cache:
    """The objects of one resource that the watch selects, with an index by owner and by label. A watch sink."""

    def __init__(
        self,
        resource: Resource,
        on_change: OnChange,
        on_write: OnChange,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resource, self._monotonic = resource, monotonic
        self.synced = False
        self.served = True
        """False: the API server has said that it does not serve this optional resource."""
        self.error: KubeError | None = None
        self._on_change, self._on_write = on_change, on_write
        self._items: dict[Key, Stored] = {}
        self._owned: dict[OwnerKey, set[Key]] = {}
        self._labelled: dict[str, dict[str, set[Key]]] = {}
        self._tombstones: dict[str, int] = {}
        """Revisions of deleted objects, by UID. Without them, a late response or event would bring an object back."""
        self._deleted_by_us: dict[str, Stored] = {}
        """Objects that we deleted, by UID, until the watch confirms it."""
        self._evicted: dict[OwnerKey, list[tuple[float, Stored]]] = {}
        """Pods that are gone, and why only their last version tells, until their owner is reconciled."""
        self._watch_revision = 0
        """The highest revision that the watch has brought. Our own writes may be ahead of it."""

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: Key) -> Stored | None:
        """Return one object; None: it is absent, as far as we know. Only a POST can prove that."""
        return self._items.get(key)

    def all(self) -> Iterable[Stored]:
        """Return every object."""
        return self._items.values()

    def labelled(self, name: str, value: str) -> list[Stored]:
        """Return the objects that carry a label. An index is kept for each label name that was ever asked for."""
        if name not in self._labelled:
            self._labelled[name] = {}
            for item in self._items.values():
                self._index(name, item)
        return [self._items[key] for key in self._labelled[name].get(value, ())]

    def owned(self, owner: OwnerKey, uid: str) -> dict[Key, Stored]:
        """Return the children of one object, without those of an earlier object of the same name.

        A pod that was evicted and is gone is returned once more. Then its owner is woken, to be reconciled without it.
        """
        found = ((key, self._items[key]) for key in self._owned.get(owner, ()))
        items = {key: item for key, item in found if item.resource == POD or _controlled_by(item, uid)}
        since = self._monotonic() - EVICTED_SECONDS
        for item in [item for parted, item in self._evicted.pop(owner, ()) if parted > since]:
            items.setdefault(item.meta.key, item)
            self._on_change(item, None)
        return items

    def record_write(self, item: Stored) -> None:
        """Take the response to our write, and call `on_write`: the watch event that follows changes nothing here."""
        old = self._items.get(item.meta.key)
        if self._put(item):
            self._on_write(old, item)

    def record_read(self, item: Stored) -> None:
        """Take the response to a GET, and call `on_change`: the watch event that follows changes nothing here."""
        old = self._items.get(item.meta.key)
        if self._put(item):
            self._on_change(old, item)

    def record_delete(self, ref: Ref) -> None:
        """Remove an object that we deleted. Until the watch confirms it, older events of it are ignored.

        One that the watch has shown as being deleted stays: it has finalizers. Removed, it would never return, because
        no newer event follows until they are gone, and an object of ours would not be reconciled to remove its own.
        """
        item = self._items.get(ref.key)
        if item is not None and item.meta.uid == ref.uid and not item.meta.deleting:
            self._add_tombstone(ref.uid, item.meta.revision)
            self._deleted_by_us[ref.uid] = item
            self._drop(item)

    def replace(self, items: list[Stored], revision: int) -> None:
        """Take a LIST as of one revision. Up to that revision it is right and we are wrong."""
        # A LIST that is older than what the watch has brought: etcd was restored from a backup. Then nothing that we
        # know counts, however new, or objects that no longer exist would stay here for ever.
        known = inf if revision < self._watch_revision else float(revision)
        listed = {item.meta.key for item in items}
        vanished = [old for key, old in self._items.items() if key not in listed and old.meta.revision <= known]
        told = self._confirm_deletions({item.meta.uid for item in items}, was_put_back=known == inf)
        self._watch_revision, self.synced, self.served = revision, True, True
        for item in items:
            old = self._items.get(item.meta.key)
            if self._put(item, known):
                self._on_change(old, item)
        for old in vanished:
            self._drop(old)
            self._on_change(old, None)
        for old in told:
            self._on_change(old, None)

    def _confirm_deletions(self, listed: set[str], *, was_put_back: bool) -> list[Stored]:
        """Return the objects that we deleted and a LIST no longer holds: no watch event will confirm that."""
        told = [item for uid, item in self._deleted_by_us.items() if uid not in listed]
        self._deleted_by_us = (
            {} if was_put_back else {uid: item for uid, item in self._deleted_by_us.items() if uid in listed}
        )
        return told

    def upsert(self, item: Stored) -> None:
        """Take an ADDED or MODIFIED event."""
        self._watch_revision = max(self._watch_revision, item.meta.revision)
        self.record_read(item)

    def remove(self, item: Stored) -> None:
        """Take a DELETED event: the object is gone, or no longer matches the selector of the watch."""
        self._watch_revision = max(self._watch_revision, item.meta.revision)
        # The response to a write of ours may arrive after this event. Without the tombstone it would add the object
        # again, and no further event would ever remove it.
        self._add_tombstone(item.meta.uid, item.meta.revision)
        if self._deleted_by_us.pop(item.meta.uid, None):
            self._on_change(item, None)
        old = self._items.get(item.meta.key)
        if old is not None and old.meta.uid == item.meta.uid and old.meta.revision <= item.meta.revision:
            self._drop(old)
            self._keep_if_evicted(item)
            self._on_change(old, None)

    def _keep_if_evicted(self, item: Stored) -> None:
        """Keep a pod that was evicted until its owner is reconciled: only its last version says why it went."""
        owner = owner_of(item)
        if owner and item.resource == POD and stored_condition(item.status, "DisruptionTarget").get("status") == "True":
            self._evicted.setdefault(owner, []).append((self._monotonic(), item))
            if len(self._evicted) > MAX_REMEMBERED:
                del self._evicted[next(iter(self._evicted))]

    def definition_removed(self) -> None:
        """Remove all objects: the API server no longer serves this optional resource."""
        self.synced, self.served, self.error = True, False, None
        for old in list(self._items.values()):
            self._drop(old)
            self._on_change(old, None)

    def trouble(self, error: KubeError | None) -> None:
        """Record why the watch fails; None: it works again."""
        self.error = error

    def _add_tombstone(self, uid: str, revision: int) -> None:
        self._tombstones[uid] = revision
        if len(self._tombstones) > MAX_REMEMBERED:
            del self._tombstones[next(iter(self._tombstones))]

    def _put(self, item: Stored, known: float = -1) -> bool:
        """Store an object and return True, unless what we have is newer. Up to the revision `known` a LIST is right."""
        old, uid, revision = self._items.get(item.meta.key), item.meta.uid, item.meta.revision
        gone = self._tombstones.get(uid, -1)
        if revision <= gone and (gone > known or uid in self._deleted_by_us):
            return False
        if old is not None and revision <= old.meta.revision and (old.meta.revision > known or old == item):
            return False
        self._tombstones.pop(uid, None)
        if old is not None:
            self._drop(old)
        self._items[item.meta.key] = item
        if owner := owner_of(item):
            self._owned.setdefault(owner, set()).add(item.meta.key)
        for name in self._labelled:
            self._index(name, item)
        return True

    def _drop(self, item: Stored) -> None:
        del self._items[item.meta.key]
        if owner := owner_of(item):
            keys = self._owned[owner]
            keys.discard(item.meta.key)
            if not keys:
                del self._owned[owner]
        for name, by_value in self._labelled.items():
            value = item.meta.label(name)
            by_value.get(value, set()).discard(item.meta.key)
            if not by_value.get(value):
                by_value.pop(value, None)

    def _index(self, name: str, item: Stored) -> None:
        if value := item.meta.label(name):
            self._labelled[name].setdefault(value, set()).add(item.meta.key)


def _controlled_by(item: Stored, uid: str) -> bool:
    owner = item.meta.controller
    return owner is not None and owner.uid == uid
