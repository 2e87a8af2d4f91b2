"""Who has to be woken when an object changes.

Derived, not declared: from what each object read when it was last looked at. A reader of many objects is woken only
when the facet it depends on changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from modelyard.core.resources import Key, Resource
from modelyard.kinds.contract import Every, Named, Read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from modelyard.core.stored import Stored


class Item(NamedTuple):
    """One object to look at: the kind's name and where it is stored."""

    kind: str
    key: Key


class Interest:
    """What every object read, and the way back."""

    def __init__(self) -> None:
        self._reads: dict[Item, tuple[Read, ...]] = {}
        self._named: dict[tuple[Resource, Key], set[Item]] = {}
        self._every: dict[Resource, dict[Item, tuple[Every, ...]]] = {}

    def record(self, item: Item, reads: Collection[Read]) -> None:
        """Remember what an object read, in place of what it read before."""
        kept = tuple(read for read in reads if isinstance(read, Named | Every))
        if kept == self._reads.get(item, ()):
            return
        self.forget(item)
        self._reads[item] = kept
        for read in kept:
            if isinstance(read, Named):
                self._named.setdefault(_place(item, read), set()).add(item)
            elif isinstance(read, Every):
                by_item = self._every.setdefault(read.resource, {})
                by_item[item] = (*by_item.get(item, ()), read)

    def forget(self, item: Item) -> None:
        """Drop what an object read."""
        for read in self._reads.pop(item, ()):
            if isinstance(read, Named):
                self._drop_named(_place(item, read), item)
            elif isinstance(read, Every):
                self._every.get(read.resource, {}).pop(item, None)

    def _drop_named(self, place: tuple[Resource, Key], item: Item) -> None:
        readers = self._named.get(place, set())
        readers.discard(item)
        if not readers:
            self._named.pop(place, None)

    def woken_by(self, resource: Resource, old: Stored | None, new: Stored | None) -> Iterator[Item]:
        """Return the readers whose answer may change."""
        current = new or old
        if current is None:
            return
        yield from self._named.get((resource, current.meta.key), ())
        for item, reads in self._every.get(resource, {}).items():
            if any(_sees(read, old) != _sees(read, new) for read in reads):
                yield item


def _place(item: Item, read: Named) -> tuple[Resource, Key]:
    return read.resource, Key(item.key.namespace if read.resource.namespaced else "", read.name)


def matches(read: Every, item: Stored) -> bool:
    """Return whether an object is among those that a read asks for."""
    if read.namespace and item.meta.namespace != read.namespace:
        return False
    labels = item.meta.labels or {}
    return all(labels.get(name) == value for name, value in read.labels)


def _sees(read: Every, item: Stored | None) -> object:
    if item is None or not matches(read, item):
        return None
    try:
        return (read.facet(item),)
    except Exception:
        # A bug of the reader's kind. Equal to nothing, so that the reader is woken and shows it, and nobody else stops.
        return object()
