"""Memory pressure: which model gives way, and that it returns."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from modelyard.host.engines import Custom
from modelyard.host.eviction import MemoryWatch, choose_victim
from modelyard.host.memory import Capacity, MemoryLedger, Pressure
from modelyard.host.metrics import HostMetrics
from modelyard.host.model_worker import Machine, ModelWorker
from modelyard.host.models import Models
from modelyard.host.wanted import WantedFile
from modelyard.host.wire import LoadRequest, State
from modelyard.local.node.process.procfs import pids_with
from modelyard.local.node.process.reaper import mark
from tests.host.daemons import DATA, GREEN, SECONDS, STAND_IN, YARD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PLENTY, LITTLE, NOTHING = 0.5, 0.15, 0.05


class Available:
    """How much memory the machine has, as the test says."""

    def __init__(self) -> None:
        self.fraction = PLENTY

    async def __call__(self) -> float:
        return self.fraction


@asynccontextmanager
async def serving(state: Path) -> AsyncIterator[Models]:
    """The models of a host in this process, with the stand-in as engine."""
    custom = Custom(STAND_IN)
    async with aiohttp.ClientSession() as session:
        machine = Machine(state, session, MemoryLedger(300), Capacity(300), {"llamacpp": custom}, (DATA,))
        models = Models(machine, WantedFile(state / "models.json"), 1.0)
        try:
            yield models
        finally:
            await models.stop()


async def until(models: Models, **states: State) -> None:
    async with asyncio.timeout(SECONDS):
        while {worker.id: worker.state for worker in models} != {ids[name]: state for name, state in states.items()}:
            await asyncio.sleep(0.02)


ids = {"yard": YARD, "green": GREEN}


async def test_under_critical_pressure_one_gives_way_and_it_returns_when_that_is_over(tmp_path: Path) -> None:
    available = Available()
    async with serving(tmp_path) as models:
        models.load(LoadRequest(YARD, memory=100, priority="low"))
        models.load(LoadRequest(GREEN, memory=100))
        await until(models, yard=State.READY, green=State.READY)
        watch = MemoryWatch(models, HostMetrics(), available, evicts=True)
        await watch.look()
        assert watch.pressure is Pressure.NORMAL
        available.fraction = NOTHING
        await watch.look()
        assert watch.pressure is Pressure.CRITICAL
        await until(models, yard=State.FAILED, green=State.READY)
        error = models.find(YARD).entry().error
        assert error is not None
        assert error.code == "Evicted"
        # The last one stays, however short memory is.
        await watch.look()
        await until(models, yard=State.FAILED, green=State.READY)
        # Asked for again, it still waits.
        assert models.load(LoadRequest(YARD, memory=100, priority="low")).state is State.FAILED
        available.fraction = LITTLE
        await watch.look()
        assert models.find(YARD).state is State.FAILED
        available.fraction = PLENTY
        await watch.look()
        await until(models, yard=State.READY, green=State.READY)
        assert models.find(YARD).entry().error is None


async def test_a_model_that_is_unloaded_while_it_is_evicted_goes_with_its_engine(tmp_path: Path) -> None:
    async with serving(tmp_path) as models:
        models.load(LoadRequest(YARD, memory=100))
        await until(models, yard=State.READY)
        evicting = asyncio.create_task(models.evict(models.find(YARD)))
        await asyncio.sleep(0)
        models.unload(YARD)
        # Until then its memory is taken, and the same model cannot be loaded beside it.
        await until(models)
        assert list(pids_with(mark(tmp_path))) == []
        await evicting


async def test_nothing_is_evicted_unless_it_is_enabled(tmp_path: Path) -> None:
    available = Available()
    available.fraction = NOTHING
    async with serving(tmp_path) as models:
        models.load(LoadRequest(YARD, memory=100))
        models.load(LoadRequest(GREEN, memory=100))
        await until(models, yard=State.READY, green=State.READY)
        watch = MemoryWatch(models, HostMetrics(), available, evicts=False)
        await watch.look()
        assert watch.pressure is Pressure.CRITICAL
        assert [worker.state for worker in models] == [State.READY, State.READY]


async def test_a_measurement_that_fails_does_not_end_the_watch(tmp_path: Path) -> None:
    measured = asyncio.Event()

    async def broken() -> float:
        measured.set()
        raise OSError("no such file")

    async with serving(tmp_path) as models:
        watching = asyncio.create_task(MemoryWatch(models, HostMetrics(), broken, evicts=True).run())
        await measured.wait()
        done, _ = await asyncio.wait({watching}, timeout=0.05)
        watching.cancel()
    assert done == set()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    async with aiohttp.ClientSession() as session:
        yield Machine(tmp_path, session, MemoryLedger(1000), Capacity(1000))


def worker(machine: Machine, name: str, *, loaded_at: str = "1", **more: Any) -> ModelWorker:
    made = ModelWorker(LoadRequest(f"https://example.com/{name}.gguf", **more), machine, lambda: None)
    made.state, made.loaded_at = State.READY, loaded_at
    return made


async def test_the_lowest_priority_goes_first_then_the_largest_then_the_oldest(machine: Machine) -> None:
    high = worker(machine, "high", priority="high", memory=500)
    old = worker(machine, "old", priority="low", memory=50, loaded_at="1")
    new = worker(machine, "new", priority="low", memory=50, loaded_at="2")
    large = worker(machine, "large", priority="low", memory=60, loaded_at="3")
    batch = worker(machine, "batch", priority="batch", memory=1)
    order, left = [], [high, old, new, large, batch]
    while victim := choose_victim(left):
        order.append(victim)
        left.remove(victim)
    assert order == [batch, large, old, new]


async def test_a_protected_model_and_the_last_one_stay(machine: Machine) -> None:
    shielded = worker(machine, "shielded", eviction_protection=True, priority="batch")
    other = worker(machine, "other", priority="critical")
    assert choose_victim([shielded, other]) is other
    assert choose_victim([shielded, worker(machine, "too", eviction_protection=True)]) is None
    assert choose_victim([other]) is None
