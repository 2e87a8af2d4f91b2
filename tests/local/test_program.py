"""Programs are started with a lifeline and stopped for sure."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from modelyard.local.program import CannotStart, ProcessDied, Program


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _started(log: Path, script: str, grace: float = 10.0) -> Program:
    """Start a shell script, and wait until it says on its first line that it runs."""
    program = Program(["/bin/sh", "-c", script], log, grace)
    await program.start()
    async with asyncio.timeout(60):
        while "running" not in log.read_text():
            await asyncio.sleep(0.01)
    return program


async def test_a_program_inherits_the_end_of_a_pipe_that_we_hold(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = 'echo running; cat "/dev/fd/$MODELYARD_LIFELINE_FD"; echo lifeline ended'
    program = await _started(log, script)
    program._drop_lifeline()
    async with asyncio.timeout(60):
        while "lifeline ended" not in log.read_text():
            await asyncio.sleep(0.01)
    await program.stop()


async def test_a_stopped_program_leaves_no_open_file(tmp_path: Path) -> None:
    before = _open_files()
    program = await _started(tmp_path / "log", "echo running; exec sleep 600")
    await program.stop()
    await program.stop()
    assert program.pid is None
    assert _open_files() == before


async def test_a_program_that_ignores_the_request_is_ended(tmp_path: Path) -> None:
    program = await _started(tmp_path / "log", "trap '' TERM; echo running; while :; do sleep 0.1; done", grace=0.05)
    pid = program.pid
    await program.stop()
    assert not Path(f"/proc/{pid}").exists()


async def test_a_program_that_died_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    program = await _started(tmp_path / "log", "seq 1 5000; echo running; echo the reason >&2; exit 3")
    async with asyncio.timeout(60):
        while program.pid is not None:
            await asyncio.sleep(0.01)
    with pytest.raises(ProcessDied, match=r"sh ended with code 3; [\s\S]*the reason") as caught:
        program.check()
    assert len(str(caught.value).splitlines()) < 20
    await program.stop()


async def test_a_program_that_is_missing_is_a_clear_error(tmp_path: Path) -> None:
    before = _open_files()
    with pytest.raises(CannotStart, match="nothing cannot be started"):
        await Program([tmp_path / "nothing"], tmp_path / "log").start()
    assert _open_files() == before
