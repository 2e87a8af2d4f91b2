"""What the runtime knows of one resource.

Fed by a watch and by the answers to our own writes. The danger is going back in time, so an older version of an object
never replaces a newer one, an object we deleted does not return, and a LIST that is older than a write of ours does
not make the object vanish. Only a LIST may go back, and it does when somebody has restored an old backup.
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
    """Takes an object as it was before and as it is now; None: there was none, or there is none any more."""


MAX_REMEMBERED: Final = 1000
"""Of how many objects that are gone we remember it. News of them is late by seconds at most."""

EVICTED_SECONDS: Final = 30.0
"""For how long a pod that is gone has something to say: a new leader begins within that time. Later it is history."""


class OwnerKey(NamedTuple):
    """Which of our objects a child belongs to, by name. Whether it is the same object, its UID tells."""

    kind: str
    namespace: str
    name: str


def owner_of(item: Stored) -> OwnerKey | None:
    """Return whose child this is.

    Pods belong to a ReplicaSet, which we do not watch; the labels of their template lead back to us.
    """
    meta = item.meta
    if item.resource == POD:
        kind, instance = meta.label(names.KIND_LABEL), meta.label(names.INSTANCE_LABEL)
        return OwnerKey(kind, meta.namespace, instance) if kind and instance else None
    owner = meta.controller
    return OwnerKey(owner.kind.lower(), meta.namespace, names.short(owner.name)) if owner else None


class Cache:
    """The objects of one resource, as far as we watch it."""

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
        """False: the cluster lacks the definition of this optional resource, and that is known for sure."""
        self.error: KubeError | None = None
        self._on_change, self._on_write = on_change, on_write
        self._items: dict[Key, Stored] = {}
        self._owned: dict[OwnerKey, set[Key]] = {}
        self._labelled: dict[str, dict[str, set[Key]]] = {}
        self._tombstones: dict[str, int] = {}
        self._deleted_by_us: dict[str, Stored] = {}  # what we deleted and the watch has not told yet
        self._evicted: dict[OwnerKey, list[tuple[float, Stored]]] = {}
        self._watch_revision = 0  # the highest revision that the watch has told; our own writes may be ahead of it

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: Key) -> Stored | None:
        """Return one object, or None when it is not there."""
        return self._items.get(key)

    def all(self) -> Iterable[Stored]:
        """Return every object."""
        return self._items.values()

    def labelled(self, name: str, value: str) -> list[Stored]:
        """Return every object that carries a label. An index is kept for each label name that was ever asked for."""
        if name not in self._labelled:
            self._labelled[name] = {}
            for item in self._items.values():
                self._index(name, item)
        return [self._items[key] for key in self._labelled[name].get(value, ())]

    def owned(self, owner: OwnerKey, uid: str) -> dict[Key, Stored]:
        """Return the children of one object. Those of an earlier object of the same name are not among them.

        Pods that are gone and had something to say are among them once; then their owner is woken to look without them.
        """
        found = ((key, self._items[key]) for key in self._owned.get(owner, ()))
        items = {key: item for key, item in found if item.resource == POD or _controlled_by(item, uid)}
        since = self._monotonic() - EVICTED_SECONDS
        for item in [item for parted, item in self._evicted.pop(owner, ()) if parted > since]:
            items.setdefault(item.meta.key, item)
            self._on_change(item, None)
        return items

    def record_write(self, item: Stored) -> None:
        """Take the answer to a write of ours, and tell it: when the watch does, later, it is no news here."""
        old = self._items.get(item.meta.key)
        if self._put(item):
            self._on_write(old, item)

    def record_read(self, item: Stored) -> None:
        """Take an object that we read by name, and tell it: when the watch does, later, it is no news here."""
        old = self._items.get(item.meta.key)
        if self._put(item):
            self._on_change(old, item)

    def record_delete(self, ref: Ref) -> None:
        """Take note that we deleted an object. Until the watch says so too, older news of it is not believed."""
        item = self._items.get(ref.key)
        if item is not None and item.meta.uid == ref.uid:
            self._add_tombstone(ref.uid, item.meta.revision)
            self._deleted_by_us[ref.uid] = item
            self._drop(item)

    def replace(self, items: list[Stored], revision: int) -> None:
        """Take a full list, as of one revision. It is right about everything up to then."""
        # A list from before what the watch has told: the server was put back, and what we know beyond it never was.
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
        """Return what we deleted and a list does not hold any more: no watch is going to tell that."""
        told = [item for uid, item in self._deleted_by_us.items() if uid not in listed]
        self._deleted_by_us = (
            {} if was_put_back else {uid: item for uid, item in self._deleted_by_us.items() if uid in listed}
        )
        return told

    def upsert(self, item: Stored) -> None:
        """Take a new or changed object from the watch."""
        self._watch_revision = max(self._watch_revision, item.meta.revision)
        self.record_read(item)

    def remove(self, item: Stored) -> None:
        """Take the news that an object is gone, or does not match our selector any more."""
        self._watch_revision = max(self._watch_revision, item.meta.revision)
        # The answer to a write of ours may come after the news that the object is gone: it must not return.
        self._add_tombstone(item.meta.uid, item.meta.revision)
        if self._deleted_by_us.pop(item.meta.uid, None):
            self._on_change(item, None)
        old = self._items.get(item.meta.key)
        if old is not None and old.meta.uid == item.meta.uid and old.meta.revision <= item.meta.revision:
            self._drop(old)
            self._keep_if_evicted(item)
            self._on_change(old, None)

    def _keep_if_evicted(self, item: Stored) -> None:
        """Keep a pod that is gone until its owner has looked: why it had to go is said in its last moments only."""
        owner = owner_of(item)
        if owner and item.resource == POD and stored_condition(item.status, "DisruptionTarget").get("status") == "True":
            self._evicted.setdefault(owner, []).append((self._monotonic(), item))
            if len(self._evicted) > MAX_REMEMBERED:
                del self._evicted[next(iter(self._evicted))]

    def definition_removed(self) -> None:
        """Take the news that the definition of this optional resource is gone, and all its objects with it."""
        self.synced, self.served, self.error = True, False, None
        for old in list(self._items.values()):
            self._drop(old)
            self._on_change(old, None)

    def trouble(self, error: KubeError | None) -> None:
        """Take the news that the watch fails (and why), or works again."""
        self.error = error

    def _add_tombstone(self, uid: str, revision: int) -> None:
        self._tombstones[uid] = revision
        if len(self._tombstones) > MAX_REMEMBERED:
            del self._tombstones[next(iter(self._tombstones))]

    def _put(self, item: Stored, known: float = -1) -> bool:
        """Take an object unless we know better; a list knows better than we do up to the revision `known`."""
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
