"""What an engine takes of its machine besides memory: a port, and disk for what it writes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp

from modelyard.host.engine_process import shorten
from modelyard.host.engines import Custom
from modelyard.host.memory import Capacity, MemoryLedger
from modelyard.host.model_worker import Machine, ModelWorker
from modelyard.host.wire import LoadRequest, State
from modelyard.local.node.storage.pod_folders import ContainerFolder
from tests.host.daemons import DATA, SECONDS, SMALL, STAND_IN, YARD

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_port_is_taken_from_before_the_start_of_an_engine_until_its_end(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as session:
        capacity = Capacity(2**30)
        machine = Machine(
            tmp_path, session, MemoryLedger(capacity.budget), capacity, {"llamacpp": Custom(STAND_IN)}, (DATA,)
        )
        worker = ModelWorker(LoadRequest(YARD, memory=SMALL), machine, lambda: None)
        running = asyncio.create_task(worker.run())
        taken: list[set[int]] = []
        async with asyncio.timeout(SECONDS):
            while worker.state is not State.READY:
                taken.append(set(machine.ports))
                await asyncio.sleep(0.01)
        assert taken[-1] == {worker.port}
        running.cancel()
        await asyncio.wait({running})
    assert machine.ports == set()


def test_the_end_of_a_long_log_becomes_the_previous_one_and_it_goes_on_at_its_beginning(tmp_path: Path) -> None:
    folder = ContainerFolder(tmp_path)
    with folder.log.open("ab", buffering=0) as engine:
        engine.write(b"one\n")
        shorten(folder, most=4)
        assert folder.log.read_bytes() == b"one\n"
        engine.write(b"two\n")
        shorten(folder, most=4)
        engine.write(b"three\n")
    assert folder.previous_log.read_bytes() == b"two\n"
    assert folder.log.read_bytes() == b"three\n"
