"""The reverse index of reads: which objects depend on an object that has changed.

It takes the place of the map functions that controllers elsewhere pass to their watches. Those have to be written, and
can be forgotten; this is what `gather` saw each object read in its last reconcile. `informers` asks it at every change.
A reader of many objects is woken only when the facet that it reads has changed.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import structlog

from modelyard.core.resources import Key, Resource
from modelyard.kinds.contract import Every, Named, Read

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator
    from typing import Any

    from modelyard.core.objects import Stored

_log = structlog.get_logger()


class Item(NamedTuple):
    """One object to reconcile, by kind and key: the request of controller-runtime."""

    kind: str
    key: Key


Bucket = tuple[Resource, tuple[str, str] | None]
"""Where the readers of an `Every` are kept: by resource and by the first label of the selector, None if it has none.

Without the label, every change of a pod would be compared with the selectors of all readers of pods.
"""


class Dependents:
    """What every object read in its last reconcile, and the readers of every object."""

    def __init__(self) -> None:
        self._reads: dict[Item, tuple[Read, ...]] = {}
        self._named: dict[tuple[Resource, Key], dict[Item, None]] = {}
        self._every: dict[Bucket, dict[Item, tuple[Every[Any], ...]]] = {}
        self._logged: set[tuple[Resource, type[Exception]]] = set()

    def record(self, item: Item, reads: Collection[Read]) -> None:
        """Replace what is known of the reads of an object."""
        kept = tuple(read for read in reads if isinstance(read, Named | Every))
        if kept == self._reads.get(item, ()):
            return
        self.forget(item)
        self._reads[item] = kept
        for read in kept:
            if isinstance(read, Named):
                self._named.setdefault(_target(item, read), {})[item] = None
            elif isinstance(read, Every):
                by_item = self._every.setdefault(_bucket(read), {})
                by_item[item] = (*by_item.get(item, ()), read)

    def extend(self, item: Item, reads: Collection[Read]) -> None:
        """Add to the reads of an object, in the middle of a reconcile that has not read everything yet."""
        self.record(item, tuple(dict.fromkeys((*self._reads.get(item, ()), *reads))))

    def forget(self, item: Item) -> None:
        """Drop the reads of an object that is gone or no longer reconciled here."""
        for read in self._reads.pop(item, ()):
            if isinstance(read, Named):
                _discard(self._named, _target(item, read), item)
            elif isinstance(read, Every):
                _discard(self._every, _bucket(read), item)

    def woken_by(self, resource: Resource, old: Stored | None, new: Stored | None) -> dict[Item, float]:
        """Return the readers that a change affects, each with the seconds that its reconcile may wait.

        `old` is None for a new object, `new` for one that is gone.
        """
        current = new or old
        if current is None:
            return {}
        woken: dict[Item, float] = {}
        # Each facet once: hundreds of objects may read the same one.
        is_news = cache(lambda read: self._facet_of(read, old) != self._facet_of(read, new))
        for item, reads in self._selecting_readers(resource, old, new):
            news = [read.within for read in reads if is_news(read)]
            if news:
                woken[item] = min(news)
        return woken | dict.fromkeys(self._named.get((resource, current.meta.key), ()), 0.0)

    def _selecting_readers(
        self, resource: Resource, old: Stored | None, new: Stored | None
    ) -> Iterator[tuple[Item, tuple[Every[Any], ...]]]:
        labels = {pair for one in (old, new) if one for pair in (one.meta.labels or {}).items()}
        for bucket in (None, *labels):
            yield from self._every.get((resource, bucket), {}).items()

    def _facet_of(self, read: Every[Any], item: Stored | None) -> object:
        if item is None or not matches(read, item):
            return None
        try:
            return read.facet(item)
        except Exception as error:
            # A bug of the reader's kind. Raised here, it would end the watch of this resource for all kinds. The result
            # is equal to nothing, so the reader is woken, runs into the same bug and shows it. Logged once, because
            # every reader would log it at every change.
            if (read.resource, type(error)) not in self._logged:
                self._logged.add((read.resource, type(error)))
                _log.exception("a facet failed", object=f"{read.resource.label} {item.meta.key}")
            return object()


def _bucket(read: Every[Any]) -> Bucket:
    labels = read.selector.labels
    return read.resource, labels[0] if labels else None


def _discard(index: dict[Any, dict[Item, Any]], place: Hashable, item: Item) -> None:
    readers = index.get(place, {})
    readers.pop(item, None)
    if not readers:
        index.pop(place, None)


def _target(item: Item, read: Named) -> tuple[Resource, Key]:
    return read.resource, read.key(item.key.namespace)


def matches(read: Every[Any], item: Stored) -> bool:
    """Return whether the namespace and the selector of a read match an object."""
    if read.namespace and item.meta.namespace != read.namespace:
        return False
    return read.selector.matches(item.meta.labels or {})
