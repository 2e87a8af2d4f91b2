"""The poller of checks: repeats each check on its schedule and wakes its readers when the answer has changed.

`runtime/gather.py` calls `look` in every reconcile, `app.py` makes the one poller and registers what answers each type
of check. Its counterpart is the kubelet's prober, for servers that no kubelet probes.

- `look` never waits: it returns the answers known so far.
- A check is polled while at least one reader names it, once for all its readers.
- At rest there are two tasks and one timer, however many checks there are. A check has a task only while it is open.
- `hysteresis` decides which answers count; the answerers have time limits of their own.
- A check that fails while this process does not get to run is made again: the failure is our own.

A second one makes the calls of plans. There `attempts` takes the place of `hysteresis`: made until it succeeds.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from math import inf
from typing import Any, Final, Protocol

import structlog

from modelyard.core.checks import Answer, Check
from modelyard.core.fair_queue import FairQueue
from modelyard.core.reasons import Reason
from modelyard.net.attempts import Attempts
from modelyard.net.hysteresis import Hysteresis
from modelyard.net.pulse import Pulse

Belief = Hysteresis | Attempts
"""What is believed of the latest answers to a check, or of the attempts at a call."""
Answerer = Callable[[Any], Awaitable[Answer]]
"""Finds the answer to a check of the type that it is registered for, within a time limit of its own."""

MAX_ACTIVE: Final = 16
"""How many checks may be at work at the same time."""
ACTIVE_SECONDS: Final = 1.0
"""A check that is open for longer waits for its server and does no work, so the next may start."""
MAX_OPEN: Final = 256
"""How many checks may be open in all: those of servers that hang stay open until their time limit."""
MAX_OPEN_PER_LANE: Final = MAX_OPEN // 4
"""How many of these one lane may have. Without it, a namespace whose servers all hang would hold up the others."""

_INTERRUPTED_SECONDS: Final = 1.0
_LOST_SHARE: Final = 1 / 3
"""A bad answer does not count if our process did not get to run for so much of the time that it took."""
_OUTSET: Final = Hysteresis()
_KEPT: Final = 64
_BROKEN: Final = Answer(
    False, Reason.INTERNAL_ERROR, "the check failed for a reason inside Modelyard; the operator's log has the details"
)

_log = structlog.get_logger(__name__)


class Clock(Protocol):
    """Time and chance, so that tests can choose them."""

    def now(self) -> float:
        """Return monotonic seconds."""

    def random(self) -> float:
        """Return a number between 0 and 1."""

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        """Return when the event is set or the seconds have passed; None is for ever."""


class SystemClock:
    """The monotonic clock of the machine, and the event loop's timers."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def random(self) -> float:
        """Return a number between 0 and 1."""
        return random.random()  # noqa: S311 - spreads load, keeps no secret

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        """Return when the event is set or the seconds have passed; None is for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()


class _Polled:
    """One check, its readers, and the answer that counts.

    It is in exactly one of three places: in `_due` until its time has come, in `_waiting` until its lane has a turn, or
    open, with a task. Two tasks of one check could otherwise finish in the wrong order and bring back an old answer.
    """

    __slots__ = ("belief", "check", "lane", "readers", "task")

    def __init__(self, check: Check, lane: Hashable, belief: Belief) -> None:
        self.check = check
        self.lane = lane
        self.readers: set[Hashable] = set()
        self.belief = belief
        self.task: asyncio.Task[None] | None = None


class Poller:
    """Keeps the answers to all checks fresh while `run` runs. Not thread-safe: all methods belong to the loop's thread.

    Lanes take turns, so ten thousand checks in one lane do not delay those of another. `lane_of` names the lane of a
    reader; a check is in the lane of its first reader.
    """

    def __init__(
        self,
        answerers: Mapping[type[Check], Answerer],
        wake: Callable[[Any], None],
        lane_of: Callable[[Any], Hashable],
        clock: Clock | None = None,
        outset: Belief = _OUTSET,
    ) -> None:
        self._answerers, self._outset = answerers, outset
        self._wake = wake
        self._lane_of = lane_of
        self._clock = clock or SystemClock()
        self._polled: dict[Check, _Polled] = {}
        self._named: dict[Hashable, frozenset[Check]] = {}
        self._due: list[tuple[float, int, _Polled]] = []
        self._order = count()
        self._open: dict[asyncio.Task[None], float] = {}
        self._open_in: Counter[Hashable] = Counter()
        self._waiting: FairQueue[_Polled] = FairQueue(lambda polled: polled.lane)
        self._news = asyncio.Event()
        self._pulse = Pulse(self._clock)

    def look(self, reader: Hashable, checks: Collection[Check]) -> dict[Check, Answer]:
        """Return the answers known so far, and poll exactly these checks for the reader from now on.

        A check without an answer yet is left out. Checks that the reader named before, and not now, are dropped.
        """
        wanted, before = frozenset(checks), self._named.get(reader, frozenset())
        if wanted:
            self._named[reader] = wanted
        else:
            self._named.pop(reader, None)
        for check in before - wanted:
            self._drop(reader, check)
        for check in wanted - before:
            self._add(reader, check)
        return self.known(reader)

    def known(self, reader: Hashable) -> dict[Check, Answer]:
        """Return the answers known so far to the checks that the reader named last."""
        known = ((check, self._polled[check].belief.answer) for check in self._named.get(reader, ()))
        return {check: answer for check, answer in known if answer is not None}

    def forget(self, reader: Hashable) -> None:
        """Drop every check that only this reader names."""
        self.look(reader, ())

    async def run(self) -> None:
        """Poll until cancelled. Checks that are open then are polled again by the next run."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pulse.run())
            while True:
                self._news.clear()
                self._start_due(group)
                await self._clock.wait(self._news, self._idle_seconds())

    def _add(self, reader: Hashable, check: Check) -> None:
        polled = self._polled.get(check)
        if polled is None:
            polled = self._polled[check] = _Polled(check, self._lane_of(reader), self._outset)
            self._schedule(polled, self._clock.now())
        polled.readers.add(reader)

    def _drop(self, reader: Hashable, check: Check) -> None:
        polled = self._polled[check]
        polled.readers.discard(reader)
        if polled.readers:
            return
        del self._polled[check]
        self._waiting.discard(polled)
        if polled.task is not None:
            polled.task.cancel()
        # A dropped check leaves the heap when its time comes, which may be in an hour. Readers that keep changing their
        # checks would fill it until then, so it is rebuilt once most of it is dropped checks.
        if len(self._due) > 2 * len(self._polled) + _KEPT:
            self._due = [entry for entry in self._due if entry[2].readers]
            heapq.heapify(self._due)

    def _schedule(self, polled: _Polled, when: float) -> None:
        heapq.heappush(self._due, (when, next(self._order), polled))
        if self._due[0][2] is polled:
            self._news.set()

    def _start_due(self, group: asyncio.TaskGroup) -> None:
        now = self._clock.now()
        while self._due and self._due[0][0] <= now:
            _, _, polled = heapq.heappop(self._due)
            if polled.readers:
                self._waiting.push(polled)
        while self._has_place(now) and (turn := self._next()) is not None:
            self._start(turn, group, now)

    def _next(self) -> _Polled | None:
        """Take the first check of the lane whose turn it is; None: no lane that waits may open another one."""
        # The share shrinks with what is left. With a fixed one, four lanes of servers that hang would leave no place.
        share = min(MAX_OPEN_PER_LANE, MAX_OPEN - len(self._open))
        return self._waiting.pop(lambda lane: self._open_in[lane] < share)

    def _start(self, polled: _Polled, group: asyncio.TaskGroup, now: float) -> None:
        polled.task = group.create_task(self._poll(polled))
        self._open[polled.task] = now
        self._pulse.want(True)
        self._open_in[polled.lane] += 1
        # A task that is cancelled before its first step runs no code of its own, not even a `finally`. Without the
        # callback its place would never be free again.
        polled.task.add_done_callback(partial(self._ended, polled))

    def _has_place(self, now: float) -> bool:
        working = sum(started + ACTIVE_SECONDS > now for started in self._open.values())
        return working < MAX_ACTIVE and len(self._open) < MAX_OPEN

    def _idle_seconds(self) -> float | None:
        """Seconds until a check may have to be started, if there is no news before; None: only news can start one."""
        now = self._clock.now()
        if not (self._due or self._waiting) or len(self._open) >= MAX_OPEN:
            return None
        if self._has_place(now):
            # A check that waits although there is a place waits for one of its own lane to end, and that is news.
            return max(0.0, self._due[0][0] - now) if self._due else None
        turns_to_waiting = (started + ACTIVE_SECONDS for started in self._open.values())
        return min(when for when in turns_to_waiting if when > now) - now

    async def _poll(self, polled: _Polled) -> None:
        began, lost = self._clock.now(), self._pulse.lost()
        answer = await self._answer(polled.check)
        now, before = self._clock.now(), polled.belief
        if not answer.ok and self._pulse.lost() - lost > _LOST_SHARE * (now - began):
            _log.info("a failed check does not count, because the operator did not get to run", reason=answer.reason)
            self._schedule(polled, now + _INTERRUPTED_SECONDS)
            return
        polled.belief = before.after(answer, now)
        pause = polled.belief.pause(polled.check.every, now, self._clock.random())
        if pause < inf:
            self._schedule(polled, now + pause)
        if polled.belief.answer != before.answer:
            for reader in tuple(polled.readers):
                self._wake(reader)

    async def _answer(self, check: Check) -> Answer:
        try:
            return await self._answerers[type(check)](check)
        except Exception:
            # Whatever can be expected comes back as an answer, so this is a bug. Raised, it would end the task group,
            # and with it every other check.
            _log.exception("a question could not be asked", check=type(check).__name__)
            return _BROKEN

    def _ended(self, polled: _Polled, task: asyncio.Task[None]) -> None:
        polled.task = None
        del self._open[task]
        self._pulse.want(bool(self._open))
        self._open_in[polled.lane] -= 1
        if not self._open_in[polled.lane]:
            del self._open_in[polled.lane]
        self._news.set()
        if task.cancelled() and polled.readers:
            self._schedule(polled, self._clock.now() + _INTERRUPTED_SECONDS)
