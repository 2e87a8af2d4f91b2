"""Who has to be woken when an object changes.

Derived, not declared: from what each object read when it was last looked at. A reader of many objects is woken only
when the facet it depends on changes.
"""

from __future__ import annotations

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
    """One object to look at: the kind's name and where it is stored."""

    kind: str
    key: Key


Bucket = tuple[Resource, tuple[str, str] | None]
"""Where readers of many objects are kept: by resource and by the first label they ask for."""


class Dependents:
    """What every object read, and the way back."""

    def __init__(self) -> None:
        self._reads: dict[Item, tuple[Read, ...]] = {}
        self._named: dict[tuple[Resource, Key], dict[Item, None]] = {}
        self._every: dict[Bucket, dict[Item, tuple[Every[Any], ...]]] = {}
        self._logged: set[tuple[Resource, type[Exception]]] = set()

    def record(self, item: Item, reads: Collection[Read]) -> None:
        """Remember what an object read, in place of what it read before."""
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
        """Remember what an object reads besides what it read before: it has not read everything yet."""
        self.record(item, tuple(dict.fromkeys((*self._reads.get(item, ()), *reads))))

    def forget(self, item: Item) -> None:
        """Drop what an object read."""
        for read in self._reads.pop(item, ()):
            if isinstance(read, Named):
                _discard(self._named, _target(item, read), item)
            elif isinstance(read, Every):
                _discard(self._every, _bucket(read), item)

    def woken_by(self, resource: Resource, old: Stored | None, new: Stored | None) -> dict[Item, float]:
        """Return the readers whose answer may change, each with the seconds that the news may wait."""
        current = new or old
        if current is None:
            return {}
        woken: dict[Item, float] = {}
        for item, reads in self._selecting_readers(resource, old, new):
            news = [read.within for read in reads if self._facet_of(read, old) != self._facet_of(read, new)]
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
            # A bug of the reader's kind. Equal to nothing, so that the reader is woken and shows it, and nobody else
            # stops. Logged once: every reader would say the same at every change.
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
    return read.resource, Key(item.key.namespace if read.resource.namespaced else "", read.name)


def matches(read: Every[Any], item: Stored) -> bool:
    """Return whether an object is among those that a read asks for."""
    if read.namespace and item.meta.namespace != read.namespace:
        return False
    return read.selector.matches(item.meta.labels or {})
