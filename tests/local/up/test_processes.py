"""Programs are kept, Python programs end with whoever started them, and a build tells how far it is."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from modelyard.local.program import Program
from modelyard.local.up.assets import NoPrograms, find_programs
from modelyard.local.up.supervise import supervise
from tests.local.node.yard import runs

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS = 90.0


@pytest.mark.parametrize(
    ("free", "cause"),
    [(2**30, "{folder}/log may say why"), (0, "the disk that holds {folder} is full: free 1 GB or more")],
)
async def test_a_program_that_ends_is_started_again_and_that_is_said(tmp_path: Path, free: int, cause: str) -> None:
    program = Program(["sleep", "600"], tmp_path / "log", name="sleeper")
    said: list[str] = []
    await program.start()
    keeping = asyncio.create_task(supervise(program, said.append, lambda _: free))
    try:
        first = program.pid
        assert first
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(_SECONDS):
            while program.pid in (None, first):
                await asyncio.sleep(0.01)
        assert said == [f"sleeper ended by itself and is started again; {cause.format(folder=tmp_path)}"]
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        await program.stop()


async def test_a_program_that_cannot_be_started_again_is_tried_until_it_can(tmp_path: Path) -> None:
    script, elsewhere = tmp_path / "sleeper", tmp_path / "elsewhere"
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o700)
    program = Program([script], tmp_path / "log")
    said: list[str] = []
    await program.start()
    keeping = asyncio.create_task(supervise(program, said.append, lambda _: 2**30))
    try:
        assert program.pid
        script.rename(elsewhere)
        os.kill(program.pid, signal.SIGKILL)
        async with asyncio.timeout(_SECONDS):
            while len(said) < 2:
                await asyncio.sleep(0.01)
            elsewhere.rename(script)
            while program.pid is None:
                await asyncio.sleep(0.01)
        assert said[1].startswith("sleeper cannot be started: [Errno 2] No such file or directory")
        assert said[1].endswith("; build or install it again; it is tried again")
        assert len(said) == 2, "the same reason is not repeated"
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        await program.stop()


_PARENT = """
import asyncio, sys
from pathlib import Path
from modelyard.local.program import Program

async def main():
    program = Program(
        [sys.executable, "-m", "modelyard.local.lifeline", "http.server", "--bind", "127.0.0.1", "0"],
        Path(sys.argv[1]),
        env={"PYTHONUNBUFFERED": "1"},
    )
    await program.start()
    print(program.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_python_program_ends_with_the_one_who_started_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _PARENT, str(log)), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout
    child = int(await parent.stdout.readline())
    async with asyncio.timeout(_SECONDS):
        while "Serving HTTP" not in (log.read_text() if log.exists() else ""):
            await asyncio.sleep(0.01)
        parent.kill()
        await parent.wait()
        while runs(child):
            await asyncio.sleep(0.01)


@pytest.fixture
def no_assets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name no programs: `make test` does."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


def _script(tmp_path: Path, text: str) -> Path:
    script = tmp_path / "build.py"
    script.write_text(text)
    return script


@pytest.mark.usefixtures("no_assets")
async def test_a_build_is_followed_and_its_folder_returned(tmp_path: Path) -> None:
    script = _script(tmp_path, "import sys\nprint('  50 %', file=sys.stderr)\nprint('/built')\n")
    said: list[str] = []
    assert str(await find_programs(said.append, script)) == "/built"
    assert said == ["50 %"]


@pytest.mark.usefixtures("no_assets")
async def test_a_build_that_fails_is_explained_by_its_last_word(tmp_path: Path) -> None:
    script = _script(tmp_path, "import sys\nprint('busy', file=sys.stderr)\nsys.exit('No control plane: no network')\n")
    with pytest.raises(NoPrograms, match=r"^there is no control plane: no network$"):
        await find_programs(lambda _: None, script)


@pytest.mark.usefixtures("no_assets")
async def test_an_installation_without_a_build_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        NoPrograms, match=r"`pip install 'modelyard\[local\]'` brings one .* is found if KUBEBUILDER_ASSETS names"
    ):
        await find_programs(lambda _: None, tmp_path / "none.py")


@pytest.mark.parametrize("in_checkout", [False, True], ids=["installed", "in a checkout"])
async def test_programs_that_are_named_are_used_and_nothing_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_checkout: bool
) -> None:
    build = tmp_path / "build.py"
    if in_checkout:
        build.write_text("raise SystemExit('No control plane: it was to be built')")
    named = tmp_path / "named"
    named.mkdir()
    (named / "kube-apiserver").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(named))
    assert await find_programs(lambda _: None, build) == named


async def test_a_named_folder_without_programs_is_for_the_build_to_explain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(NoPrograms, match=f"KUBEBUILDER_ASSETS={tmp_path} holds no kube-apiserver; unset it"):
        await find_programs(lambda _: None)


@pytest.mark.usefixtures("no_assets")
async def test_a_build_is_stopped_with_all_that_it_has_started(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        "import signal, subprocess, sys\n"
        # As after a start in the background by a script.
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "print(child.pid, file=sys.stderr, flush=True)\n"
        "child.wait()\n",
    )
    said: asyncio.Queue[str] = asyncio.Queue()
    building = asyncio.create_task(find_programs(said.put_nowait, script))
    async with asyncio.timeout(_SECONDS):
        compiler = int(await said.get())
        building.cancel()
        await asyncio.wait([building])
        while runs(compiler):
            await asyncio.sleep(0.01)
    assert building.cancelled()


_STUBBORN = """
import asyncio
from modelyard.local.up.commands import _until_stopped

async def stubborn():
    print("here", flush=True)
    try:
        await asyncio.sleep(600)
    finally:
        print("asked", flush=True)
        await asyncio.sleep(600)

asyncio.run(_until_stopped(stubborn(), lambda: print("left", flush=True)))
"""


async def test_a_second_signal_does_not_wait_and_leaves_the_terminal_in_order() -> None:
    process = await asyncio.create_subprocess_exec(*(sys.executable, "-c", _STUBBORN), stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(_SECONDS):
        for words in (b"here\n", b"asked\n"):
            assert await process.stdout.readline() == words
            process.send_signal(signal.SIGINT)
        assert await process.stdout.read() == b"left\n"
        assert await process.wait() == 130


_FAILING = """
import asyncio
from modelyard.local.up.commands import _until_stopped

async def part():
    raise RuntimeError("a part failed")

async def machine():
    async with asyncio.TaskGroup() as group:
        group.create_task(part())
        try:
            await asyncio.sleep(600)
        finally:
            print("stopping", flush=True)
            await asyncio.to_thread(input)
            print("stopped", flush=True)

asyncio.run(_until_stopped(machine(), lambda: print("left", flush=True)))
"""


async def test_a_signal_while_a_failed_machine_stops_does_not_hide_why_it_failed() -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _FAILING), stdin=pipe, stdout=pipe, stderr=pipe
    )
    assert process.stdout is not None
    async with asyncio.timeout(_SECONDS):
        assert await process.stdout.readline() == b"stopping\n"
        process.send_signal(signal.SIGINT)
        output, complaint = await process.communicate(b"\n")
    assert output == b"stopped\n"
    assert b"RuntimeError: a part failed" in complaint
    assert process.returncode == 1


_CANCELLED = """
import asyncio
from modelyard.local.up.commands import _until_stopped

async def machine():
    raise asyncio.CancelledError

asyncio.run(_until_stopped(machine(), lambda: None))
"""


async def test_an_end_that_no_signal_asked_for_is_an_error() -> None:
    process = await asyncio.create_subprocess_exec(*(sys.executable, "-c", _CANCELLED), stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(_SECONDS):
        _, complaint = await process.communicate()
    assert b"CancelledError" in complaint
    assert process.returncode == 1
