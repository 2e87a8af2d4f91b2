"""The work queue: client-go's rate-limited, delaying workqueue, with lanes.

`informers` add keys, the workers of `controller` take them. It knows nothing of Kubernetes.

- A key is in the queue at most once, and processed by one worker at a time.
- A key that is added while it is processed is handed out once more afterwards, so no change is lost; a hundred changes
  in between are one more reconcile.
- Keys wait in lanes that take turns. Of a serial lane, one key is processed at a time.

Not thread-safe: all methods belong to the thread of the event loop.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from modelyard.core.fair_queue import FairQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from modelyard.runtime.clock import Clock, Timer
    from modelyard.runtime.rate_limiter import RateLimiter

T = TypeVar("T", bound="Hashable")

_MAX_STALE: Final = 64
"""How many dropped entries the heap may hold beyond as many again as there are live ones, before it is rebuilt."""


class SerialLane(NamedTuple):
    """A lane whose keys are processed one at a time, by any worker that is free."""

    name: str


class Queue(Generic[T]):
    """Keys that are to be processed, now or later."""

    def __init__(
        self, clock: Clock, rate_limiter: RateLimiter, lane_of: Callable[[T], Hashable] = lambda _: None
    ) -> None:
        self._clock, self._rate_limiter, self._lane_of = clock, rate_limiter, lane_of
        self._busy_lanes: set[SerialLane] = set()
        self._ready: FairQueue[T] = FairQueue(lane_of)
        self._added_at: dict[T, float] = {}
        """The keys in `_ready`, with the time since when they wait."""
        self._processing: set[T] = set()
        self._dirty: set[T] = set()
        """Keys that were added while they are processed."""
        self._due: dict[T, float] = {}
        """When each delayed key is due. An entry of `_heap` with another time was dropped."""
        self._heap: list[tuple[float, int, T]] = []
        self._order = 0
        self._timer: Timer | None = None
        self._failures: dict[T, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()

    def add(self, key: T, *, urgent: bool = False) -> None:
        """Hand a key out as soon as a worker is free. If it was delayed, it is not any more."""
        self._due.pop(key, None)
        if key in self._processing:
            self._dirty.add(key)
            return
        # The urgent lane is not serial. A key of a serial lane that waited there would be processed beside another one.
        self._ready.push(key, urgent=urgent and not isinstance(self._lane_of(key), SerialLane))
        if key not in self._added_at:
            self._added_at[key] = self._clock.monotonic()
            self._wake_one()

    def add_after(self, key: T, seconds: float) -> None:
        """Hand a key out after so many seconds; of several delays the one that ends first counts."""
        due = self._clock.monotonic() + seconds
        if key in self._added_at or key in self._dirty or self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        self._order += 1
        heapq.heappush(self._heap, (due, self._order, key))
        self._set_timer()

    def retry(self, key: T, at_least: float = 0.0) -> None:
        """Hand a key out after its back-off, which doubles with every failure in a row (AddRateLimited)."""
        self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, max(at_least, self._rate_limiter.delay(self._failures[key])))

    def retry_now(self) -> None:
        """Hand out at once all keys that wait for their back-off: the cause of the failures is gone."""
        for key in [key for key in self._failures if key in self._due]:
            self.add(key)

    def succeeded(self, key: T) -> None:
        """Reset the back-off of a key (Forget)."""
        self._failures.pop(key, None)

    def failures(self, key: T) -> int:
        """Return how many times in a row a key has failed."""
        return self._failures.get(key, 0)

    def forget(self, key: T) -> None:
        """Drop what is known of a key whose object is gone: its failures and its delay."""
        self._failures.pop(key, None)
        self._due.pop(key, None)

    def reset_ages(self) -> None:
        """Measure the age of waiting keys from now on: before, this replica had no workers."""
        self._added_at = dict.fromkeys(self._added_at, self._clock.monotonic())

    async def get(self) -> T:
        """Wait for a key and take it; the caller processes it and then calls `done`."""
        while (key := self._ready.pop(self._is_lane_free)) is None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # A key may have woken us just before we were cancelled. It has to wake another worker, or it would wait
                # here while workers are idle.
                if not self._remove_waiter(waiter) and self._ready:
                    self._wake_one()
                raise
        del self._added_at[key]
        self._processing.add(key)
        if isinstance(lane := self._lane_of(key), SerialLane):
            self._busy_lanes.add(lane)
        return key

    def done(self, key: T) -> None:
        """Record that a key was processed. If it was added in between, it is handed out again."""
        self._processing.discard(key)
        if isinstance(lane := self._lane_of(key), SerialLane):
            self._busy_lanes.discard(lane)
            # A worker that found only keys of this lane went to sleep although keys wait. Nothing else would wake it.
            self._wake_one()
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def _is_lane_free(self, lane: Hashable) -> bool:
        return lane not in self._busy_lanes

    @property
    def depth(self) -> int:
        """How many keys wait for a worker. Delayed keys do not count."""
        return len(self._ready)

    @property
    def age(self) -> float:
        """For how many seconds the oldest key has waited for a worker."""
        return self._clock.monotonic() - next(iter(self._added_at.values())) if self._added_at else 0.0

    @property
    def idle(self) -> bool:
        """Whether no key waits or is processed. Delayed keys do not count."""
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
            # Every event of a key replaces its delay. A delay of an hour would leave an entry per event for an hour.
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
