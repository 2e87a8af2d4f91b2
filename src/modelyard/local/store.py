"""A copy of some objects of the cluster that a watch keeps equal. It decides nothing."""

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
    """The objects of one resource, and who wants to hear of every change."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.items: dict[Key, Stored] = {}
        self.is_filled = False

    def replace(self, items: list[Stored], revision: int) -> None:  # noqa: ARG002 - named by the protocol `Sink`
        """Take these as everything there is."""
        self.items = {item.meta.key: item for item in items}
        self.is_filled = True
        self._changed()

    def upsert(self, item: Stored) -> None:
        """Take a new or changed object."""
        self.items[item.meta.key] = item
        self._changed()

    def remove(self, item: Stored) -> None:
        """Drop an object."""
        self.items.pop(item.meta.key, None)
        self._changed()

    def trouble(self, error: KubeError | None) -> None:
        """Say that the copy is old, or no longer so."""
        if error is None:
            _log.info("the API server answers again")
        else:
            _log.warning("the API server cannot be followed", error=str(error))
