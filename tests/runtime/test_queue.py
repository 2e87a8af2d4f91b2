"""The keyed queue, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from modelyard.runtime.queue import Queue, SerialLane
from modelyard.runtime.rate_limiter import RateLimiter
from tests.support.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue(clock: VirtualClock) -> Queue[str]:
    return Queue(clock, RateLimiter(first=1.0, longest=60.0, jitter=lambda: 1.0))


async def settled() -> None:
    """Let every task that can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def waiting(queue: Queue[str], count: int = 1) -> list[asyncio.Task[str]]:
    """Return workers that wait for a key, in this order."""
    workers = [asyncio.create_task(queue.get()) for _ in range(count)]
    await settled()
    return workers


async def received(worker: asyncio.Task[str]) -> str:
    """Return the key that a waiting worker must have got by now."""
    await settled()
    assert worker.done(), "the worker still waits"
    return worker.result()


async def taken(queue: Queue[str]) -> str:
    """Take a key that must be there."""
    assert queue.depth
    return await queue.get()


async def test_a_key_is_handed_out_once_however_often_it_was_added(queue: Queue[str]):
    for _ in range(3):
        queue.add("a")
    assert await taken(queue) == "a"
    queue.done("a")
    assert queue.idle


async def test_keys_come_in_the_order_in_which_they_were_added(queue: Queue[str]):
    for key in "abcab":
        queue.add(key)
    assert [await taken(queue) for _ in range(3)] == ["a", "b", "c"]


async def test_a_key_is_never_in_two_hands(queue: Queue[str]):
    queue.add("a")
    await taken(queue)
    queue.add("a")
    (worker,) = await waiting(queue)
    assert not worker.done()
    queue.done("a")
    assert await received(worker) == "a"


async def test_a_hundred_changes_during_the_work_are_one_more_turn(queue: Queue[str]):
    queue.add("a")
    await taken(queue)
    for _ in range(100):
        queue.add("a")
    queue.done("a")
    assert await taken(queue) == "a"
    queue.done("a")
    assert queue.idle


async def test_an_appointment_is_kept_on_time(queue: Queue[str], clock: VirtualClock):
    queue.add_after("a", 10.0)
    clock.advance(9.9)
    assert queue.depth == 0
    clock.advance(0.1)
    assert await taken(queue) == "a"


@pytest.mark.parametrize("delays", [(5.0, 10.0), (10.0, 5.0)])
async def test_the_earliest_appointment_wins(queue: Queue[str], clock: VirtualClock, delays: tuple[float, float]):
    for delay in delays:
        queue.add_after("a", delay)
    clock.advance(5.0)
    assert await taken(queue) == "a"
    queue.done("a")
    clock.advance(60.0)
    assert queue.idle, "the later appointment is not kept as well"
    assert clock.pending == 0


async def test_appointments_of_many_keys_are_kept_in_their_order(queue: Queue[str], clock: VirtualClock):
    for key, delay in {"c": 3.0, "a": 1.0, "b": 2.0}.items():
        queue.add_after(key, delay)
    clock.advance(3.0)
    assert [await taken(queue) for _ in range(3)] == ["a", "b", "c"]


async def test_coming_now_replaces_an_appointment(queue: Queue[str], clock: VirtualClock):
    queue.add_after("a", 10.0)
    queue.add("a")
    await taken(queue)
    queue.done("a")
    clock.advance(60.0)
    assert queue.idle


async def test_a_key_that_waits_already_needs_no_appointment(queue: Queue[str], clock: VirtualClock):
    queue.add("a")
    queue.add_after("a", 10.0)
    await taken(queue)
    queue.done("a")
    clock.advance(60.0)
    assert queue.idle


async def test_an_appointment_made_during_the_work_is_kept_after_it(queue: Queue[str], clock: VirtualClock):
    queue.add("a")
    await taken(queue)
    queue.add_after("a", 10.0)
    clock.advance(10.0)
    assert queue.depth == 0, "it is still being worked on"
    queue.done("a")
    assert await taken(queue) == "a"


async def test_failures_in_a_row_double_the_wait_and_a_success_resets_it(queue: Queue[str], clock: VirtualClock):
    for delay in (1.0, 2.0, 4.0):
        queue.retry("a")
        clock.advance(delay - 0.01)
        assert queue.depth == 0
        clock.advance(0.01)
        queue.done(await taken(queue))
    assert queue.failures("a") == 3
    queue.succeeded("a")
    queue.retry("a")
    clock.advance(1.0)
    assert await taken(queue) == "a"
    assert queue.failures("a") == 1


async def test_a_retry_waits_at_least_as_long_as_the_server_asked(queue: Queue[str], clock: VirtualClock):
    queue.retry("a", at_least=30.0)
    clock.advance(29.0)
    assert queue.depth == 0
    clock.advance(1.0)
    assert queue.depth == 1


async def test_the_failures_of_one_key_do_not_slow_another(queue: Queue[str], clock: VirtualClock):
    for _ in range(5):
        queue.retry("a")
    queue.retry("b")
    clock.advance(1.0)
    assert queue.depth == 2, "a keeps the first and earliest of its appointments"


async def test_a_key_that_is_forgotten_has_no_appointment_and_no_failures(queue: Queue[str], clock: VirtualClock):
    queue.retry("a")
    queue.forget("a")
    clock.advance(60.0)
    assert (queue.failures("a"), queue.depth, clock.pending) == (0, 0, 0)


async def test_every_key_wakes_one_worker(queue: Queue[str]):
    workers = await waiting(queue, 3)
    queue.add("a")
    queue.add("b")
    await settled()
    assert [worker.done() for worker in workers] == [True, True, False]
    workers[2].cancel()


async def test_a_worker_that_is_cancelled_while_it_waits_loses_no_key(queue: Queue[str]):
    first, second = await waiting(queue, 2)
    first.cancel()
    await settled()
    queue.add("a")
    assert await received(second) == "a"


async def test_a_worker_that_is_cancelled_at_the_moment_it_is_woken_passes_the_key_on(queue: Queue[str]):
    first, second = await waiting(queue, 2)
    queue.add("a")
    first.cancel()
    await settled()
    assert first.cancelled()
    assert await received(second) == "a"


async def test_a_key_stays_when_all_workers_are_cancelled_at_once(queue: Queue[str]):
    workers = await waiting(queue, 3)
    queue.add("a")
    for worker in workers:
        worker.cancel()
    await settled()
    assert await taken(queue) == "a"


async def test_the_age_counts_from_the_restart_when_nobody_worked_before(queue: Queue[str], clock: VirtualClock):
    queue.add("a")
    clock.advance(3600.0)
    queue.reset_ages()
    clock.advance(2.0)
    assert (queue.depth, queue.age) == (1, 2.0)
    assert await queue.get() == "a"


async def test_the_age_is_that_of_the_key_that_waits_longest(queue: Queue[str], clock: VirtualClock):
    assert queue.age == 0.0
    queue.add("a")
    clock.advance(2.0)
    queue.add("b")
    clock.advance(3.0)
    assert (queue.depth, queue.age) == (2, 5.0)
    await taken(queue)
    assert (queue.depth, queue.age) == (1, 3.0)


class Schedule:
    """A random run of the queue next to the simplest model of it: who is owed a turn, and who has an appointment."""

    KEYS = "abcde"

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.queue: Queue[str] = Queue(self.clock, RateLimiter(first=1.0, longest=8.0, jitter=lambda: 1.0))
        self.workers: list[asyncio.Task[str]] = []
        self.owed: set[str] = set()
        self.due: dict[str, float] = {}
        self.failures: dict[str, int] = {}
        self.held: list[str] = []

    async def step(self) -> None:
        moves = (self.add, self.later, self.retry, self.finish, self.hire, self.cancel, self.pass_time, self.succeed)
        self.chance.choice(moves)()
        if self.chance.random() < 0.7:  # otherwise the next move comes before anybody could react
            await self.collect()

    async def collect(self) -> None:
        await settled()
        for worker in [worker for worker in self.workers if worker.done()]:
            self.workers.remove(worker)
            if not worker.cancelled():
                self.handed_out(worker.result())

    def handed_out(self, key: str) -> None:
        assert key not in self.held, f"{key} is in two hands"
        assert key in self.owed, f"{key} was handed out without a reason"
        self.owed.discard(key)
        self.held.append(key)

    def add(self) -> None:
        key = self.chance.choice(self.KEYS)
        self.queue.add(key)
        self.owed.add(key)
        self.due.pop(key, None)

    def appoint(self, key: str, seconds: float) -> None:
        due = self.clock.monotonic() + seconds
        if key not in self.owed:
            self.due[key] = min(due, self.due.get(key, due))

    def later(self) -> None:
        key, seconds = self.chance.choice(self.KEYS), self.chance.choice([0.5, 2.0, 7.0])
        self.queue.add_after(key, seconds)
        self.appoint(key, seconds)

    def retry(self) -> None:
        key = self.chance.choice(self.KEYS)
        self.failures[key] = self.failures.get(key, 0) + 1
        self.queue.retry(key)
        self.appoint(key, min(8.0, 2.0 ** (self.failures[key] - 1)))

    def succeed(self) -> None:
        key = self.chance.choice(self.KEYS)
        self.queue.succeeded(key)
        self.failures.pop(key, None)

    def finish(self) -> None:
        if self.held:
            key = self.held.pop(self.chance.randrange(len(self.held)))
            self.queue.done(key)

    def hire(self) -> None:
        if len(self.workers) < 3:
            self.workers.append(asyncio.create_task(self.queue.get()))

    def cancel(self) -> None:
        if self.workers:
            self.chance.choice(self.workers).cancel()

    def pass_time(self) -> None:
        self.clock.advance(self.chance.choice([0.1, 1.0, 5.0]))
        arrived = [key for key, due in self.due.items() if due <= self.clock.monotonic()]
        for key in arrived:
            del self.due[key]
            self.owed.add(key)

    async def drain(self) -> None:
        """Finish everything: whoever is owed a turn must get it."""
        self.clock.advance(100.0)
        self.owed |= self.due.keys()
        for _ in range(3 * len(self.KEYS)):
            await self.collect()
            while self.held:
                self.finish()
            self.hire()
        for worker in self.workers:
            worker.cancel()
        await self.collect()
        assert self.owed == set(), "these never got their turn"


@pytest.mark.parametrize("seed", range(20))
async def test_no_key_is_lost_doubled_or_early_in_any_order_of_events(seed: int):
    await run_schedule(seed)


@pytest.mark.soak
async def test_no_key_is_lost_doubled_or_early_in_all_orders_that_there_is_time_for(
    seconds: float, chance: random.Random
):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await run_schedule(chance.getrandbits(32))


async def run_schedule(seed: int) -> None:
    schedule = Schedule(seed)
    for _ in range(200):
        await schedule.step()
    await schedule.drain()
    assert schedule.queue.idle
    assert schedule.clock.pending == 0


def test_what_waits_for_its_back_off_comes_at_once_when_the_cause_is_gone(queue: Queue[str]):
    for _ in range(10):
        queue.retry("failing")
    queue.add_after("appointment", 30.0)
    queue.retry_now()
    assert queue.depth == 1
    assert queue.failures("failing") == 10


async def test_lanes_take_turns_so_that_a_flood_in_one_holds_up_no_other(clock: VirtualClock):
    queue: Queue[str] = Queue(clock, RateLimiter(), lane_of=lambda key: key[0])
    for key in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.add(key)
    assert [await taken(queue) for _ in range(6)] == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_urgent_keys_come_first_and_starve_nobody(clock: VirtualClock):
    queue: Queue[str] = Queue(clock, RateLimiter(), lane_of=lambda key: key[0])
    for key in ("a1", "a2", "b1"):
        queue.add(key)
    for key in ("a2", "x", "y"):
        queue.add(key, urgent=True)
    queue.add("x")
    assert [await taken(queue) for _ in range(5)] == ["a2", "a1", "x", "b1", "y"]
    assert queue.depth == 0


async def test_the_age_is_that_of_the_key_that_waits_longest_in_any_lane(queue: Queue[str], clock: VirtualClock):
    queue.add("old")
    clock.advance(5.0)
    queue.add("new", urgent=True)
    assert await taken(queue) == "new"
    assert queue.age == 5.0


async def test_appointments_that_were_dropped_do_not_pile_up(queue: Queue[str], clock: VirtualClock):
    queue.add_after("first", 2000.0)
    for _ in range(1000):
        clock.advance(1.0)
        queue.add_after("a", 3600.0)
        queue.add("a")
        queue.done(await taken(queue))
    assert len(queue._heap) < 100


@pytest.fixture
def pooled(clock: VirtualClock) -> Queue[str]:
    """Keys that begin with a p share a pool; each other key is its own."""
    return Queue(clock, RateLimiter(), lane_of=lambda key: SerialLane("pool") if key.startswith("p") else key)


async def test_of_a_serial_lane_one_key_is_in_work_at_a_time_and_others_go_on(pooled: Queue[str]):
    for key in ("p1", "p2", "other"):
        pooled.add(key)
    assert [await taken(pooled), await taken(pooled)] == ["p1", "other"]
    (worker,) = await waiting(pooled)
    assert not worker.done()
    pooled.done("p1")
    assert await received(worker) == "p2"


async def test_a_key_of_a_serial_lane_that_is_added_during_its_own_work_comes_again(pooled: Queue[str]):
    pooled.add("p1")
    assert await taken(pooled) == "p1"
    pooled.add("p1")
    (worker,) = await waiting(pooled)
    pooled.done("p1")
    assert await received(worker) == "p1"


async def test_an_urgent_key_of_a_serial_lane_waits_for_its_turn(pooled: Queue[str]):
    pooled.add("p1")
    assert await taken(pooled) == "p1"
    pooled.add("p2", urgent=True)
    (worker,) = await waiting(pooled)
    assert not worker.done()
    pooled.done("p1")
    assert await received(worker) == "p2"


async def test_a_worker_that_is_cancelled_while_a_serial_lane_is_busy_leaves_its_key_to_another(pooled: Queue[str]):
    for key in ("p1", "p2"):
        pooled.add(key)
    assert await taken(pooled) == "p1"
    gone, stays = await waiting(pooled, 2)
    pooled.done("p1")
    gone.cancel()
    assert await received(stays) == "p2"
