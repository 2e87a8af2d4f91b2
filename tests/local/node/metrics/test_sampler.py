"""What processes use is measured as the kernel counts it, children included, and only while they run."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING

import pytest

from modelyard.local.node.metrics.sampler import Sampler
from modelyard.local.node.process import procfs
from modelyard.local.node.process.container_record import ContainerRecord, write_record
from modelyard.local.node.process.reaper import kill_group
from modelyard.local.node.storage.pod_folders import PodFolder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUSY = "while True: pass"
HOLDS = "held = bytearray(200 * 2**20); print(flush=True); import time; time.sleep(600)"
# Each takes one second of CPU time when it is told to, however long that is on a busy machine.
ALONE = "while time.process_time() - begun < 1.0: pass"
# The parent only waits for its children, which end one after the other.
CHILDREN = """for _ in range(5):
    subprocess.run([sys.executable, "-S", "-c", "import time\\nwhile time.process_time() < 0.2: pass"])"""
TOLD = """import subprocess, sys, time
print(flush=True)
sys.stdin.readline()
begun = time.process_time()
{}
print(flush=True)
time.sleep(600)"""


@contextmanager
def container(state: Path, name: str, script: str, **record: tuple[str, ...]) -> Iterator[Popen[bytes]]:
    """Run a script as a container of the pod `uid`, and go on when it has printed what it may print."""
    command = [sys.executable, "-S", "-c", script]
    process = Popen(command, stdin=PIPE, stdout=PIPE, start_new_session=True)
    folder = PodFolder(state, "uid").container(name)
    folder.make()
    write_record(folder.record, ContainerRecord(pid=process.pid, birth=procfs.birth(process.pid), **record))
    try:
        if "print" in script:
            assert process.stdout
            process.stdout.readline()
        yield process
    finally:
        kill_group(process.pid)
        process.communicate()


@pytest.mark.parametrize("work", [ALONE, CHILDREN], ids=["alone", "children"])
async def test_the_cpu_of_a_container_is_that_of_all_its_processes(tmp_path: Path, work: str) -> None:
    sampler = Sampler(tmp_path)
    with container(tmp_path, "main", TOLD.format(work)) as process, container(tmp_path, "idle", TOLD):
        await sampler.measure()
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        found = await sampler.measure()
    used = found.pods["uid"]
    # Children also take a moment to start.
    assert 0.95 < used["main"].cpu * used["main"].window < 1.5
    assert used["idle"].cpu * used["idle"].window < 0.1
    assert found.machine is not None
    assert found.machine.cpu > used["main"].cpu * 0.8


async def test_memory_counts_what_is_held_and_shared_memory_once(tmp_path: Path) -> None:
    with container(tmp_path, "main", HOLDS):
        used = (await Sampler(tmp_path).measure()).pods["uid"]["main"]
    assert 200 * 2**20 < used.memory < 230 * 2**20
    with container(tmp_path, "main", HOLDS.replace("print(", "import os; os.fork(); print(")):
        used = (await Sampler(tmp_path).measure()).pods["uid"]["main"]
    assert 200 * 2**20 < used.memory < 230 * 2**20


async def test_a_container_that_has_ended_uses_nothing(tmp_path: Path) -> None:
    sampler = Sampler(tmp_path)
    with container(tmp_path, "main", BUSY):
        assert (await sampler.measure()).pods.keys() == {"uid"}
    await asyncio.sleep(1.1)
    assert (await sampler.measure()).pods == {}


async def test_a_pod_with_a_container_of_podman_is_not_measured(tmp_path: Path) -> None:
    with container(tmp_path, "main", BUSY), container(tmp_path, "other", BUSY, remove=("podman", "rm", "other")):
        assert (await Sampler(tmp_path).measure()).pods == {}


async def test_many_who_ask_at_once_get_one_answer(tmp_path: Path) -> None:
    sampler = Sampler(tmp_path)
    first, *others = await asyncio.gather(*(sampler.measure() for _ in range(5)))
    assert all(each is first for each in others)
