"""The store behind a watch: a copy of the objects of one resource, as `cache.Store` of client-go. It decides nothing.

The node, the proxy, the provisioner and the view of `modelyard up` each follow a watch into one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Key
    from modelyard.kube.errors import KubeError

_log = structlog.get_logger()


class Store:
    """The objects of one resource by key, and the function to call after every change. A `Sink` of `kube.watch`."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.items: dict[Key, Stored] = {}
        self.is_filled = False
        self.revision = 0
        """The resource version up to which changes of the resource are known; 0: nothing is known yet."""

    def replace(self, items: list[Stored], revision: int) -> None:
        """Take the result of a LIST: these are all objects."""
        self.revision = revision
        self.items = {item.meta.key: item for item in items}
        self.is_filled = True
        self._changed()

    def upsert(self, item: Stored) -> None:
        """Take an object that was added or modified."""
        self.revision = item.meta.revision
        self.items[item.meta.key] = item
        self._changed()

    def remove(self, item: Stored) -> None:
        """Drop an object that is gone from the API."""
        self.revision = item.meta.revision
        self.items.pop(item.meta.key, None)
        self._changed()

    def trouble(self, error: KubeError | None) -> None:
        """Log that the watch is interrupted and the copy may be old; None: it is followed again."""
        if error is None:
            _log.info("the API server answers again")
        else:
            _log.warning("the API server cannot be followed", error=str(error))
