"""A queue of keys in lanes that take turns, for the work queue and for the poller of checks.

A thousand keys in one lane do not hold up those of another. Urgent keys have a lane of their own, which gets every
second turn at most: otherwise a stream of urgent keys would starve all others.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T", bound="Hashable")

_URGENT: Final = object()


class FairQueue(Generic[T]):
    """A set of keys. Each is in it at most once; within a lane, first in, first out."""

    def __init__(self, lane_of: Callable[[T], Hashable]) -> None:
        self._lane_of = lane_of
        self._lanes: dict[Hashable, OrderedDict[T, None]] = {}
        self._turns: deque[Hashable] = deque()
        self._where: dict[T, Hashable] = {}

    def __len__(self) -> int:
        return len(self._where)

    def push(self, key: T, *, urgent: bool = False) -> None:
        """Add a key. One that waits already keeps its place, unless it has become urgent."""
        if key in self._where:
            if not urgent or self._where[key] is _URGENT:
                return
            self._leave(key, self._where[key])
        lane = _URGENT if urgent else self._lane_of(key)
        if lane not in self._lanes:
            self._lanes[lane] = OrderedDict()
            self._turns.insert(0 if urgent else len(self._turns), lane)
        self._lanes[lane][key] = None
        self._where[key] = lane

    def pop(self, may: Callable[[Hashable], bool] = lambda _: True) -> T | None:
        """Remove and return the first key of the next lane that `may` have a turn; None: no such lane has a key."""
        for lane in self._turns:
            if may(lane):
                return self._take_turn(lane)
        return None

    def _take_turn(self, lane: Hashable) -> T:
        key = next(iter(self._lanes[lane]))
        self._leave(key, lane)
        if lane in self._lanes:
            self._turns.remove(lane)
            self._turns.insert(1 if lane is _URGENT else len(self._turns), lane)
        return key

    def discard(self, key: T) -> None:
        """Remove a key, if it waits."""
        if key in self._where:
            self._leave(key, self._where[key])

    def _leave(self, key: T, lane: Hashable) -> None:
        del self._where[key]
        del self._lanes[lane][key]
        if not self._lanes[lane]:
            del self._lanes[lane]
            self._turns.remove(lane)
