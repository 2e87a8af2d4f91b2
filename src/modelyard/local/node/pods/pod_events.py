"""Events of type Warning about a pod, as `kubectl describe pod` shows them.

`pod_worker` sends them. The status of a container that is not ready has no field for the reason; only an Event can say
that its probe fails, and how. The same warning about the same pod is sent once in ten minutes.
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
    """The reason and note of one Event."""

    reason: str
    note: str


class PodWarnings:
    """The warnings of one pod that are not sent yet."""

    def __init__(self) -> None:
        self._pending: list[PodWarning] = []
        self._told: dict[PodWarning, float] = {}

    def add(self, warning: PodWarning) -> bool:
        """Add a warning; return whether it is to be sent. False: the same one was, a short time ago."""
        now = time.monotonic()
        if now - self._told.get(warning, -_QUIET_SECONDS) < _QUIET_SECONDS:
            return False
        self._told[warning] = now
        self._pending.append(warning)
        return True

    def take(self) -> list[PodWarning]:
        """Return the warnings that are to be sent, and drop them: one that cannot be sent is lost."""
        taken, self._pending = self._pending, []
        return taken


def event(pod: Stored, node: str, warning: PodWarning) -> Json:
    """Return the Event object for a warning about a pod."""
    reporter = Reporter("modelyard.dev/node", node, "Watch")
    return events.event(pod, reporter, warning.reason, warning.note, datetime.now(UTC), warning=True)
