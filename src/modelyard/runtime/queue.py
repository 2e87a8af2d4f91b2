"""The keyed queue: every key at most once in it, and never in two hands at a time.

It knows nothing of Kubernetes. A key that is added while it is being worked on is handed out again afterwards, so no
change is ever lost; a hundred changes meanwhile are one more turn. Keys wait in lanes that take turns; of a serial lane
only one key is in work at a time.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from modelyard.core.fair_queue import FairQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from modelyard.runtime.backoff import Backoff
    from modelyard.runtime.clock import Clock, Timer

T = TypeVar("T", bound="Hashable")

_MAX_STALE: Final = 64
"""So many appointments that were dropped may lie around, before they are cleared away."""


class SerialLane(NamedTuple):
    """A lane whose keys are worked on one after the other, by whichever worker is free."""

    name: str


class Queue(Generic[T]):
    """Keys that want attention, now or later."""

    def __init__(self, clock: Clock, backoff: Backoff, lane_of: Callable[[T], Hashable] = lambda _: None) -> None:
        self._clock, self._backoff, self._lane_of = clock, backoff, lane_of
        self._busy_lanes: set[SerialLane] = set()
        self._ready: FairQueue[T] = FairQueue(lane_of)
        self._added_at: dict[T, float] = {}
        self._processing: set[T] = set()
        self._dirty: set[T] = set()
        self._due: dict[T, float] = {}
        self._heap: list[tuple[float, int, T]] = []
        self._order = 0
        self._timer: Timer | None = None
        self._failures: dict[T, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()

    def add(self, key: T, *, urgent: bool = False) -> None:
        """Hand this key out as soon as a worker is free. An appointment for later is dropped: it comes now."""
        self._due.pop(key, None)
        if key in self._processing:
            self._dirty.add(key)
            return
        # The urgent lane is not serial: a key of a serial lane waits in its own, or two would be in work at a time.
        self._ready.push(key, urgent=urgent and not isinstance(self._lane_of(key), SerialLane))
        if key not in self._added_at:
            self._added_at[key] = self._clock.monotonic()
            self._wake_one()

    def add_after(self, key: T, seconds: float) -> None:
        """Hand this key out after a while; of several appointments the earliest counts."""
        due = self._clock.monotonic() + seconds
        if key in self._added_at or key in self._dirty or self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        self._order += 1
        heapq.heappush(self._heap, (due, self._order, key))
        self._set_timer()

    def retry(self, key: T, at_least: float = 0.0) -> None:
        """Hand this key out after its back-off, which doubles with every failure in a row."""
        self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, max(at_least, self._backoff.delay(self._failures[key])))

    def retry_now(self) -> None:
        """Hand out now what waits for its back-off: the cause of the failures is gone."""
        for key in [key for key in self._failures if key in self._due]:
            self.add(key)

    def succeeded(self, key: T) -> None:
        """Forget the failures of a key."""
        self._failures.pop(key, None)

    def failures(self, key: T) -> int:
        """Return how many times in a row this key has failed."""
        return self._failures.get(key, 0)

    def forget(self, key: T) -> None:
        """Drop everything known of a key that is gone for good."""
        self._failures.pop(key, None)
        self._due.pop(key, None)

    def reset_ages(self) -> None:
        """Count the waiting of every key from now on: before, nobody worked."""
        self._added_at = dict.fromkeys(self._added_at, self._clock.monotonic())

    async def get(self) -> T:
        """Wait for a key and take it into work; call `done` with it afterwards."""
        while (key := self._ready.pop(self._is_lane_free)) is None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # The key that woke us must wake somebody else, or it would lie here with a worker idle.
                if not self._remove_waiter(waiter) and self._ready:
                    self._wake_one()
                raise
        del self._added_at[key]
        self._processing.add(key)
        if isinstance(lane := self._lane_of(key), SerialLane):
            self._busy_lanes.add(lane)
        return key

    def done(self, key: T) -> None:
        """Say that work on a key has ended; if it was added meanwhile, it is handed out again."""
        self._processing.discard(key)
        if isinstance(lane := self._lane_of(key), SerialLane):
            self._busy_lanes.discard(lane)
            # Workers that found only keys of this lane went to sleep although there was something to do.
            self._wake_one()
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def _is_lane_free(self, lane: Hashable) -> bool:
        return lane not in self._busy_lanes

    @property
    def depth(self) -> int:
        """How many keys wait for a worker."""
        return len(self._ready)

    @property
    def age(self) -> float:
        """How long the oldest key has been waiting."""
        return self._clock.monotonic() - next(iter(self._added_at.values())) if self._added_at else 0.0

    @property
    def idle(self) -> bool:
        """Whether nothing is waiting now or being worked on."""
        return not self._ready and not self._processing

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _remove_waiter(self, waiter: asyncio.Future[None]) -> bool:
        if waiter not in self._waiters:
            return False
        self._waiters.remove(waiter)
        return True

    def _set_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if len(self._heap) > 2 * len(self._due) + _MAX_STALE:
            # An appointment in an hour that every event of the key renews would pile up for an hour.
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if self._heap:
            self._timer = self._clock.call_later(max(0.0, self._heap[0][0] - self._clock.monotonic()), self._add_due)

    def _add_due(self) -> None:
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                self.add(key)
        self._set_timer()
