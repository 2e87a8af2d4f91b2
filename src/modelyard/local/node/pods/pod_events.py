"""What a person must notice about a pod and its status has no place for: events, as `kubectl describe` shows them.

A container that is not ready says nothing about the reason; only an event can. The same news is told once in a while.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core import events
from modelyard.core.events import Reporter

if TYPE_CHECKING:
    from modelyard.core.objects import Json, Stored

_QUIET_SECONDS: Final = 600.0


class PodWarning(Struct, frozen=True):
    """One piece of news."""

    reason: str
    note: str


class PodWarnings:
    """The news of one pod that are still to be told."""

    def __init__(self) -> None:
        self._pending: list[PodWarning] = []
        self._told: dict[PodWarning, float] = {}

    def add(self, warning: PodWarning) -> bool:
        """Take a piece of news; return whether it is to be told."""
        now = time.monotonic()
        if now - self._told.get(warning, -_QUIET_SECONDS) < _QUIET_SECONDS:
            return False
        self._told[warning] = now
        self._pending.append(warning)
        return True

    def take(self) -> list[PodWarning]:
        """Return what is to be told, once."""
        taken, self._pending = self._pending, []
        return taken


def event(pod: Stored, node: str, warning: PodWarning) -> Json:
    """Return the Event that tells a piece of news about a pod."""
    reporter = Reporter("modelyard.dev/node", node, "Watch")
    return events.event(pod, reporter, warning.reason, warning.note, datetime.now(UTC), warning=True)
