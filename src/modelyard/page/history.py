"""What the page remembers since it follows the cluster: how conditions turned, and when pods had loaded.

The API stores only the latest state of a condition, and of a startup probe only that it succeeded. `yard` tells every
change, `detail` and `cold_start` show them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core.times import timestamp

if TYPE_CHECKING:
    from datetime import datetime

    from modelyard.core.objects import Stored

Json = dict[str, Any]

_KEPT: Final = 64
"""Changes of conditions kept of each object, so that one that flaps takes no more memory than others."""


class Turn(Struct, frozen=True):
    """A condition at the moment when it was seen to change."""

    at: str
    type: str
    status: str
    reason: str
    message: str = ""


class ConditionHistory:
    """The changes of conditions of all objects, by UID."""

    def __init__(self) -> None:
        self._turns: dict[str, deque[Turn]] = {}
        self._last: dict[str, dict[str, tuple[str, str]]] = {}

    def observe(self, item: Stored, now: datetime) -> None:
        """Take note of conditions that differ from those seen last, in status or reason."""
        last = self._last.setdefault(item.meta.uid, {})
        for each in item.status.get("conditions") or ():
            kind, value = str(each.get("type")), (str(each.get("status")), str(each.get("reason")))
            if last.get(kind) == value:
                continue
            # The first sight of an object is no change, and the stored time is the only one that is known.
            at = timestamp(now) if kind in last else str(each.get("lastTransitionTime") or timestamp(now))
            last[kind] = value
            turn = Turn(at, kind, *value, str(each.get("message") or ""))
            self._turns.setdefault(item.meta.uid, deque(maxlen=_KEPT)).append(turn)

    def forget(self, uid: str) -> None:
        """Forget an object that is gone."""
        self._turns.pop(uid, None)
        self._last.pop(uid, None)

    def of(self, uid: str) -> tuple[Turn, ...]:
        """Return the changes that were seen of an object, the oldest first."""
        return tuple(self._turns.get(uid, ()))


class LoadMoments:
    """When the startup probes of pods succeeded, of pods that were seen before and after it."""

    def __init__(self) -> None:
        self._loading: set[str] = set()
        self._loaded: dict[str, datetime] = {}

    def observe(self, pod: Stored, now: datetime) -> None:
        """Take note of a pod."""
        uid, containers = pod.meta.uid, pod.status.get("containerStatuses") or []
        if not containers or not all(each.get("started") for each in containers):
            self._loading.add(uid)
        elif uid in self._loading:
            self._loading.discard(uid)
            self._loaded.setdefault(uid, now)

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._loading.discard(uid)
        self._loaded.pop(uid, None)

    def of(self, uid: str) -> datetime | None:
        """Return when a pod had loaded; None: it was not seen."""
        return self._loaded.get(uid)
