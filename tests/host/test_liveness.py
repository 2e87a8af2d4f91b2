"""Engines that hang, or say that they are not well, and those that are only busy."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import aiohttp

from modelyard.host import model_worker
from modelyard.host.engines import Custom
from modelyard.host.liveness import BUSY_SECONDS, EVERY_SECONDS, IDLE_SECONDS, Liveness
from modelyard.host.memory import Capacity, MemoryLedger
from modelyard.host.model_worker import Machine, ModelWorker
from modelyard.host.wire import LoadRequest, State
from modelyard.local.node.process.procfs import pids_with
from modelyard.local.node.process.reaper import mark
from tests.host.daemons import DATA, SECONDS, SMALL, STAND_IN, YARD

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SILENT = 0


class Watched:
    """The liveness of an engine, looked at as often as a daemon does."""

    def __init__(self) -> None:
        self.now = 0.0
        self.liveness = Liveness(lambda: self.now)

    def lasts(self, health: int, *, is_busy: bool = False, at_most: float = 3600.0) -> float:
        """Return for how many seconds an engine with these answers is left alone."""
        began = self.now
        while self.now - began < at_most:
            self.now += EVERY_SECONDS
            if self.liveness.is_dead(health, is_busy=is_busy):
                break
        return self.now - began


def test_an_engine_that_answers_is_left_alone() -> None:
    assert Watched().lasts(200) == 3600


def test_an_idle_engine_that_is_silent_is_dead_soon() -> None:
    assert Watched().lasts(SILENT) == IDLE_SECONDS


def test_a_busy_engine_that_is_silent_has_more_time_and_not_for_ever() -> None:
    assert Watched().lasts(SILENT, is_busy=True) == BUSY_SECONDS


def test_a_busy_engine_that_sends_to_clients_is_left_alone() -> None:
    watched = Watched()
    for _ in range(10):
        assert watched.lasts(SILENT, is_busy=True, at_most=BUSY_SECONDS - EVERY_SECONDS) == BUSY_SECONDS - EVERY_SECONDS
        watched.liveness.heard()


def test_an_engine_whose_clients_have_given_up_gets_a_moment_to_notice() -> None:
    watched = Watched()
    watched.lasts(SILENT, is_busy=True, at_most=60)
    watched.liveness.rests()
    assert watched.lasts(SILENT) == IDLE_SECONDS


def test_an_engine_that_says_that_it_is_not_well_is_believed_the_third_time() -> None:
    watched = Watched()
    watched.lasts(500, is_busy=True, at_most=20)
    watched.lasts(200, at_most=10)
    assert watched.lasts(500, is_busy=True) == 30


def test_a_daemon_that_was_stopped_itself_blames_no_engine() -> None:
    watched = Watched()
    watched.now += 3600
    assert not watched.liveness.is_dead(SILENT, is_busy=False)
    assert watched.lasts(200) == 3600


async def test_an_engine_that_hangs_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_worker, "EVERY_SECONDS", 0.05)
    monkeypatch.setattr("modelyard.host.liveness.IDLE_SECONDS", 0.2)
    monkeypatch.setattr("modelyard.host.engine_process._ANSWER", aiohttp.ClientTimeout(total=0.5))
    monkeypatch.setattr("modelyard.host.engine_process._END_SECONDS", 0.2)
    async with aiohttp.ClientSession() as session, asyncio.timeout(SECONDS):
        machine = Machine(
            tmp_path, session, MemoryLedger(2**30), Capacity(2**30), {"llamacpp": Custom(STAND_IN)}, (DATA,)
        )
        worker = ModelWorker(LoadRequest(YARD, memory=SMALL), machine, lambda: None)
        running = asyncio.create_task(worker.run())
        try:
            await becomes(worker, State.READY)
            for pid in pids_with(mark(tmp_path)):
                os.kill(pid, signal.SIGSTOP)
            await becomes(worker, State.LOADING)
            await becomes(worker, State.READY)
            assert worker.restarts == 1
        finally:
            running.cancel()
            await asyncio.wait({running})


async def becomes(worker: ModelWorker, state: State) -> None:
    while worker.state is not state:
        await asyncio.sleep(0.01)
