"""Machines that are up to anything: few open files, disks that are full, programs that cannot be started."""

from __future__ import annotations

import asyncio
import resource
from http import HTTPStatus
from typing import TYPE_CHECKING

import aiohttp
import pytest

from modelyard.host.engine_process import running_engine
from modelyard.host.memory import Capacity, MemoryLedger
from modelyard.host.model_worker import Machine
from modelyard.host.models import Models
from modelyard.host.refusals import LoadFailed, Refusal
from modelyard.host.wanted import WantedFile
from modelyard.host.wire import Code, LoadRequest
from modelyard.local.node.process.process import Launch
from modelyard.local.node.storage.pod_folders import ContainerFolder
from modelyard.local.open_files import MOST
from tests.host.daemons import YARD, running, stand_in
from tests.host.engine import stream

if TYPE_CHECKING:
    from pathlib import Path

FEW = 48
STREAMS = 40


async def test_more_streams_pass_than_the_soft_limit_of_open_files_allows(tmp_path: Path) -> None:
    async with running(tmp_path, "--memory=256Mi", stand_in(tmp_path), open_files=FEW) as daemon:
        await daemon.ready(YARD)
        answers = await asyncio.gather(*(daemon.ask(YARD, pieces=20, every=0.02) for _ in range(STREAMS)))
        assert {answer.text.encode() for answer in answers} == {stream(20)}
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        (engine,) = daemon.engines
        assert {open_files(daemon.pid), open_files(engine)} == {min(MOST, hard) if hard > 0 else MOST}


def open_files(pid: int) -> int:
    """Return the soft limit of open files of a process."""
    soft, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    return soft


async def test_a_request_that_cannot_be_written_down_is_refused_and_reserves_nothing(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as session:
        machine = Machine(tmp_path, session, MemoryLedger(300), Capacity(300))
        models = Models(machine, WantedFile(tmp_path / "gone" / "models.json"), 1.0)
        with pytest.raises(Refusal, match="make room on the disk") as refused:
            models.load(LoadRequest("https://example.com/m.gguf", memory=100))
    assert (refused.value.status, refused.value.problem.code) == (HTTPStatus.INSUFFICIENT_STORAGE, Code.NO_SPACE)
    assert (machine.ledger.free, list(models)) == (300, [])


@pytest.mark.parametrize(
    ("argv", "code", "is_final"),
    [
        (("/no/such/program",), Code.ENGINE_MISSING, True),
        # The kernel takes no such list: as with a full table of processes, the program is not to blame.
        (("/bin/true", "x" * 4_000_000), Code.ENGINE_FAILED, False),
    ],
)
async def test_only_a_program_that_is_missing_is_not_tried_again(
    tmp_path: Path, argv: tuple[str, ...], code: Code, is_final: bool
) -> None:
    folder = ContainerFolder(tmp_path / "engine")
    folder.make()
    with pytest.raises(LoadFailed) as failed:
        async with running_engine(folder, Launch(argv, {}, str(folder.work))):
            pass
    assert (failed.value.problem.code, failed.value.is_final) == (code, is_final)
