"""The poller of checks, in virtual time: a minute passes in no time, and always in the same order."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from modelyard.core.checks import Answer
from modelyard.core.checks.agent_card import AgentCard
from modelyard.core.checks.mcp_handshake import McpHandshake
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.hosts import HostAddress, HostProbe
from modelyard.core.reasons import Reason
from modelyard.net.hosts.hosts import PROBE_SECONDS
from modelyard.net.poller import MAX_ACTIVE, MAX_OPEN, MAX_OPEN_PER_LANE, Poller, SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable

GOOD = Answer(True, Reason.ANSWERED, "fine")
BAD = Answer(False, Reason.NO_ANSWER, "silent")


def check(name: str, every: float = 30.0) -> McpHandshake:
    return McpHandshake(ServiceAddress("default", name, 8080), "/mcp", 5.0, "1", every=every)


def card(name: str) -> AgentCard:
    """The check with the limits and the schedule that Agents have."""
    return AgentCard(ServiceAddress("default", name, 8080), "1")


class VirtualClock:
    """Time that passes only when a test says so. One poller waits on it, and its pulse."""

    def __init__(self) -> None:
        self.time = 0.0
        self._alarms: dict[asyncio.Event, float] = {}

    def now(self) -> float:
        return self.time

    def random(self) -> float:
        return 0.5

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        self._alarms[event] = inf if seconds is None else self.time + seconds
        try:
            await event.wait()
        finally:
            del self._alarms[event]

    def stand_still(self, seconds: float) -> None:
        """Let time pass during which nothing of the process runs: what was due meanwhile is due now."""
        self.time += seconds
        self._ring()

    def _ring(self) -> None:
        for alarm, until in self._alarms.items():
            if until <= self.time:
                alarm.set()

    async def settle(self) -> None:
        """Let everything run that can run without time passing."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def pass_until(self, end: float) -> None:
        await self.settle()
        while (soonest := min(self._alarms.values(), default=inf)) <= end:
            self.time = max(self.time, soonest)
            self._ring()
            await self.settle()
        self.time = end


class Network:
    """Servers that answer as they are told, or not until they are let go."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.answers: dict[str, Answer | Exception] = {}
        self.hangs: set[str] = set()
        self.asked: list[tuple[float, str]] = []
        self.cancelled: list[str] = []
        self.open = self.most_open = 0
        self.let_go = asyncio.Event()
        self.limit = inf
        """After how many seconds one that hangs is given up."""

    async def ask(self, check: McpHandshake | AgentCard) -> Answer:
        name = check.service.name
        self.asked.append((self._clock.time, name))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await self._reach(name)
        finally:
            self.open -= 1
        answer = self.answers.get(name, GOOD)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _reach(self, name: str) -> None:
        try:
            await (self._hang() if name in self.hangs else asyncio.sleep(0))
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise

    async def _hang(self) -> None:
        if self.limit == inf:
            await self.let_go.wait()
            return
        end = self._clock.time + self.limit
        while self._clock.time < end:
            await asyncio.sleep(0)

    def fall_silent(self, *names: str) -> None:
        """Have servers hang until they are given up, which is a bad answer."""
        self.hangs.update(names)
        self.answers.update(dict.fromkeys(names, BAD))

    def recover(self, *names: str) -> None:
        self.hangs.difference_update(names)
        self.answers.update(dict.fromkeys(names, GOOD))

    def times(self, name: str) -> list[float]:
        return [when for when, asked in self.asked if asked == name]


def _lane(reader: Hashable) -> str:
    return str(reader).partition("/")[0]


class World:
    """A poller in virtual time, with what it did."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.network = Network(self.clock)
        self.woken: list[tuple[float, Hashable]] = []
        answerers = {McpHandshake: self.network.ask, AgentCard: self.network.ask}
        self.poller = Poller(answerers, self._wake, lane_of=_lane, clock=self.clock)

    def _wake(self, reader: Hashable) -> None:
        self.woken.append((self.clock.time, reader))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.poller.run())
        yield
        assert not task.done(), "the poller stopped by itself"
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def idle() -> World:
    return World()


@pytest.fixture
async def world(idle: World) -> AsyncIterator[World]:
    async with idle.running():
        yield idle


async def test_a_new_check_is_asked_at_once_and_its_reader_is_woken(world: World) -> None:
    assert world.poller.look("reader", [check("a")]) == {}
    await world.clock.settle()
    assert world.woken == [(0.0, "reader")]
    assert world.poller.look("reader", [check("a")]) == {check("a"): GOOD}


async def test_a_good_answer_is_refreshed_on_schedule_and_wakes_nobody_again(world: World) -> None:
    world.poller.look("reader", [check("a")])
    await world.clock.pass_until(95)
    assert world.network.times("a") == [0, 30, 60, 90]
    assert len(world.woken) == 1


async def test_a_bad_answer_is_asked_again_soon_and_then_less_often(world: World) -> None:
    world.network.answers["a"] = BAD
    world.poller.look("reader", [check("a")])
    await world.clock.pass_until(95)
    assert world.network.times("a") == [0, 1, 3, 7, 15, 31, 61, 91]
    assert len(world.woken) == 1


async def test_a_server_that_falls_silent_is_reported_after_three_tries(world: World) -> None:
    world.poller.look("reader", [check("a")])
    await world.clock.settle()
    world.network.answers["a"] = BAD
    await world.clock.pass_until(40)
    assert world.network.times("a")[:4] == [0, 30, 31, 33]
    assert world.woken == [(0, "reader"), (33, "reader")]
    assert world.poller.look("reader", [check("a")]) == {check("a"): BAD}


async def test_a_server_that_flaps_for_an_hour_wakes_its_reader_rarely(world: World) -> None:
    world.poller.look("reader", [check("a", every=5.0)])
    for second in range(3600):
        world.network.answers["a"] = GOOD if second // 10 % 2 else BAD
        await world.clock.pass_until(float(second))
    assert len(world.woken) <= 3600 / 30 + 2


async def test_what_fails_while_our_own_process_stands_still_does_not_count(world: World) -> None:
    names = [f"server-{number}" for number in range(10)]
    world.network.limit = 3.0
    for name in names:
        world.poller.look(name, [check(name, every=5.0)])
    await world.clock.pass_until(60)
    woken = len(world.woken)
    # Their answers are there before their time is up, but are not read before.
    world.network.fall_silent(*names)
    for _ in range(4):
        await world.clock.pass_until(world.clock.time + 2)
        world.clock.stand_still(15)
        await world.clock.settle()
    world.network.recover(*names)
    await world.clock.pass_until(200)
    assert world.woken[woken:] == []


async def test_what_fails_while_our_own_process_hardly_runs_does_not_count(world: World) -> None:
    world.network.limit = 3.0
    world.poller.look("reader", [check("a", every=5.0)])
    await world.clock.pass_until(1)
    world.network.fall_silent("a")
    for _ in range(100):
        world.clock.stand_still(1.0)
        await world.clock.settle()
    assert len(world.woken) == 1
    assert len(world.network.times("a")) > 10


async def test_a_server_that_is_silent_after_our_process_stood_still_is_reported(world: World) -> None:
    world.network.limit = 3.0
    world.poller.look("reader", [check("a", every=5.0)])
    await world.clock.pass_until(1)
    world.network.fall_silent("a")
    await world.clock.pass_until(6)
    world.clock.stand_still(15)
    await world.clock.pass_until(36)
    assert [when for when, _ in world.woken[1:]] == [pytest.approx(22 + 3 + 1 + 3 + 2 + 3, abs=1)]


async def test_that_the_api_server_has_no_secret_for_us_is_no_answer_of_the_server(world: World) -> None:
    world.poller.look("reader", [check("a", every=5.0)])
    await world.clock.pass_until(1)
    world.network.answers["a"] = Answer(False, Reason.API_UNAVAILABLE, "the Secret cannot be read at the moment")
    await world.clock.pass_until(100)
    assert len(world.woken) == 1
    world.network.answers["b"] = world.network.answers["a"]
    world.poller.look("another", [check("b", every=5.0)])
    await world.clock.pass_until(120)
    assert world.poller.known("another") == {check("b", every=5.0): world.network.answers["a"]}


async def test_two_readers_share_one_check_and_both_are_woken(world: World) -> None:
    world.poller.look("one", [check("a")])
    world.poller.look("two", [check("a"), check("b")])
    await world.clock.settle()
    assert Counter(name for _, name in world.network.asked) == {"a": 1, "b": 1}
    assert Counter(reader for _, reader in world.woken) == {"one": 1, "two": 2}


async def test_a_check_that_nobody_names_is_forgotten(world: World) -> None:
    world.poller.look("one", [check("a")])
    world.poller.look("two", [check("a")])
    await world.clock.settle()
    world.poller.forget("one")
    await world.clock.pass_until(45)
    assert world.network.times("a") == [0, 30]
    world.poller.look("two", [])
    await world.clock.pass_until(200)
    assert world.network.times("a") == [0, 30]
    assert world.poller.look("three", [check("a")]) == {}


async def test_a_check_dropped_while_it_is_asked_is_cancelled(world: World) -> None:
    world.network.hangs.add("a")
    world.poller.look("reader", [check("a")])
    await world.clock.settle()
    world.poller.forget("reader")
    await world.clock.settle()
    assert world.network.cancelled == ["a"]
    assert world.woken == []


async def test_a_check_dropped_and_named_again_at_once_is_asked_afresh(world: World) -> None:
    world.network.hangs.add("a")
    world.poller.look("reader", [check("a")])
    await world.clock.settle()
    world.poller.forget("reader")
    world.network.hangs.clear()
    world.poller.look("reader", [check("a")])
    await world.clock.settle()
    assert world.network.times("a") == [0, 0]
    assert world.poller.look("reader", [check("a")]) == {check("a"): GOOD}


async def test_a_new_roll_out_is_a_new_check(world: World) -> None:
    old = check("a")
    new = replace(old, template="2")
    world.poller.look("reader", [old])
    await world.clock.settle()
    assert world.poller.look("reader", [new]) == {}
    await world.clock.settle()
    assert world.poller.look("reader", [new]) == {new: GOOD}


async def test_a_bug_in_asking_is_an_answer_and_stops_nothing(world: World) -> None:
    world.network.answers["a"] = RuntimeError("a bug")
    world.poller.look("reader", [check("a"), check("b")])
    await world.clock.settle()
    await world.clock.pass_until(5)
    answers = world.poller.look("reader", [check("a"), check("b")])
    assert answers[check("a")].reason is Reason.INTERNAL_ERROR
    assert answers[check("b")] == GOOD


async def test_a_thousand_checks_that_come_together_are_asked_at_once_but_few_at_a_time(world: World) -> None:
    for number in range(1000):
        world.poller.look(number, [check(f"server-{number}")])
    for _ in range(20):
        await world.clock.settle()
    assert len(world.network.asked) == len(world.woken) == 1000
    assert world.network.most_open == MAX_ACTIVE


async def test_servers_that_hang_do_not_hold_up_the_others_for_long(world: World) -> None:
    world.network.hangs = {f"hanging-{number}" for number in range(64)}
    for name in sorted(world.network.hangs):
        world.poller.look(name, [check(name)])
    world.poller.look("reader", [check("a")])
    await world.clock.pass_until(3.9)
    assert world.network.times("a") == []
    await world.clock.pass_until(4.0)
    assert world.network.times("a") == [4.0]


async def test_of_a_thousand_agents_in_one_lane_a_hundred_hang_and_the_others_are_asked_on_time(world: World) -> None:
    world.network.hangs = {f"server-{number}" for number in range(0, 1000, 10)}
    world.network.limit = card("any").timeout
    world.network.answers = dict.fromkeys(world.network.hangs, BAD)
    for number in range(1000):
        world.poller.look(f"lane/{number}", [card(f"server-{number}")])
    for step in range(1, 4 * 120):
        await world.clock.pass_until(step / 4)
    friendly = {f"server-{number}" for number in range(1000)} - world.network.hangs
    asked: dict[str, list[float]] = {}
    for when, name in world.network.asked:
        asked.setdefault(name, []).append(when)
    pauses = [later - earlier for name in friendly for earlier, later in pairwise(asked[name])]
    assert len(pauses) >= 2 * len(friendly)
    assert max(asked[name][0] for name in friendly) < 15
    assert max(pauses) < 30 + 5


async def test_of_two_hundred_hosts_twenty_hang_and_the_others_are_probed_on_time(world: World) -> None:
    every, names = HostProbe(HostAddress("default", "")).every, [f"host-{number}" for number in range(200)]
    world.network.hangs = set(names[:20])
    world.network.limit = PROBE_SECONDS
    world.network.answers = dict.fromkeys(world.network.hangs, BAD)
    for name in names:
        world.poller.look(f"lane/{name}", [check(name, every)])
    for step in range(1, 4 * 120):
        await world.clock.pass_until(step / 4)
    probes = Counter(name for when, name in world.network.asked if when >= 10)
    pauses = [later - earlier for name in names[20:] for earlier, later in pairwise(world.network.times(name))]
    assert min(probes[name] for name in names[20:]) >= 110 / every - 1
    assert max(pauses) <= every + 1
    assert {reader for when, reader in world.woken if when > 20} == set()


async def test_however_many_hang_only_so_many_are_open(world: World) -> None:
    world.network.hangs = {f"hanging-{number}" for number in range(300)}
    for name in sorted(world.network.hangs):
        world.poller.look(name, [check(name)])
    await world.clock.pass_until(100)
    assert world.network.open == MAX_OPEN
    world.network.let_go.set()
    for _ in range(10):
        await world.clock.settle()
    assert len(world.woken) == 300


async def test_a_lane_whose_servers_all_hang_holds_up_no_other_lane(world: World) -> None:
    world.network.hangs = {f"hanging-{number}" for number in range(2 * MAX_OPEN)}
    for name in sorted(world.network.hangs):
        world.poller.look(f"greedy/{name}", [check(name)])
    await world.clock.pass_until(100)
    assert world.network.open == MAX_OPEN_PER_LANE
    world.poller.look("modest/reader", [check("a")])
    await world.clock.settle()
    assert world.network.times("a") == [100.0]
    world.network.let_go.set()
    for _ in range(20):
        await world.clock.settle()
    assert len(world.woken) == 2 * MAX_OPEN + 1


async def test_however_many_lanes_hang_another_is_asked(world: World) -> None:
    world.network.hangs = {f"hanging-{number}" for number in range(2 * MAX_OPEN)}
    for number, name in enumerate(sorted(world.network.hangs)):
        world.poller.look(f"greedy-{number % 8}/{name}", [check(name)])
    await world.clock.pass_until(1000)
    world.poller.look("modest/reader", [check("a")])
    await world.clock.settle()
    assert world.network.times("a") == [1000.0]


async def test_lanes_take_turns_however_long_one_of_them_is(world: World) -> None:
    for number in range(1000):
        world.poller.look(f"greedy/{number}", [check(f"server-{number}")])
    world.poller.look("modest/reader", [check("a")])
    for _ in range(20):
        await world.clock.settle()
    assert [name for _, name in world.network.asked].index("a") == 1
    assert len(world.network.asked) == 1001


async def test_a_check_dropped_while_its_lane_is_full_is_never_asked(world: World) -> None:
    world.network.hangs = {f"hanging-{number}" for number in range(MAX_OPEN_PER_LANE)}
    for name in sorted(world.network.hangs):
        world.poller.look(f"greedy/{name}", [check(name)])
    await world.clock.pass_until(100)
    for number in range(1000):
        world.poller.look("greedy/edited", [check(f"edited-{number}")])
        await world.clock.settle()
    assert len(world.poller._waiting) == 1
    world.poller.forget("greedy/edited")
    world.network.let_go.set()
    await world.clock.settle()
    assert not world.poller._waiting
    assert {name for _, name in world.network.asked} == world.network.hangs


async def test_checks_that_nobody_has_any_more_do_not_pile_up_until_their_time(world: World) -> None:
    for number in range(1000):
        world.poller.look("reader", [check(f"server-{number}", every=3600.0)])
        await world.clock.settle()
    assert len(world.network.asked) == 1000
    assert len(world.poller._due) < 100


async def test_nothing_is_left_behind_when_it_ends_and_a_second_run_goes_on(idle: World) -> None:
    idle.network.hangs.add("a")
    idle.poller.look("reader", [check("a"), check("b")])
    async with idle.running():
        await idle.clock.settle()
    assert (idle.network.open, idle.network.cancelled) == (0, ["a"])
    idle.network.hangs.clear()
    async with idle.running():
        await idle.clock.pass_until(1)
        assert idle.poller.look("reader", [check("a"), check("b")]) == {check("a"): GOOD, check("b"): GOOD}


async def test_checks_named_before_it_runs_are_asked_when_it_does(idle: World) -> None:
    idle.poller.look("reader", [check("a")])
    async with idle.running():
        await idle.clock.settle()
        assert idle.network.times("a") == [0]


async def test_real_time_works_too() -> None:
    woken: asyncio.Queue[Hashable] = asyncio.Queue()
    answers = iter([BAD, BAD, BAD, GOOD])

    async def ask(_: McpHandshake) -> Answer:
        return next(answers)

    poller = Poller({McpHandshake: ask}, woken.put_nowait, lane_of=hash)
    task = asyncio.create_task(poller.run())
    poller.look("reader", [check("a", every=0.05)])
    async with asyncio.timeout(60):
        assert [await woken.get(), await woken.get()] == ["reader", "reader"]
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert poller.look("reader", [check("a", every=0.05)]) == {check("a", every=0.05): GOOD}


async def test_the_system_clock_waits_for_the_event_or_the_time() -> None:
    clock, event = SystemClock(), asyncio.Event()
    before = clock.now()
    await clock.wait(event, 0.01)
    assert clock.now() - before >= 0.009
    event.set()
    async with asyncio.timeout(60):
        await clock.wait(event, None)
    assert 0 <= clock.random() < 1


async def test_a_thousand_checks_at_rest_cost_little(world: World) -> None:
    for number in range(1000):
        world.poller.look(number, [check(f"server-{number}")])
    for _ in range(20):
        await world.clock.settle()
    await world.clock.pass_until(1)
    tasks, before = asyncio.all_tasks(), time.process_time()
    await world.clock.pass_until(29.9)
    assert asyncio.all_tasks() <= tasks
    assert time.process_time() - before < 1.0
