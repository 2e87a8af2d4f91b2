"""The small parts of the node that need no cluster."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from modelyard.core.objects import Metadata
from modelyard.local.node import node_status
from modelyard.local.node.hardware import Gpu, Hardware, Pressure, available_memory, listed_gpus, measure_pressure
from modelyard.local.node.pods.downward_api import memory_limit
from modelyard.local.node.pods.environment import past_proxies
from modelyard.local.node.pods.gpus import Gpus
from modelyard.local.node.pods.pod_worker import grace_left
from modelyard.local.node.pods.probes import Tally
from modelyard.local.node.podspec import Container, Port, Probe, Resources
from modelyard.local.node.process import procfs
from modelyard.local.node.process.container_record import ContainerRecord, read_record, write_record
from modelyard.local.node.process.container_state import Terminated
from modelyard.local.node.process.path_mapping import Mapped
from modelyard.local.node.process.podman import Podman, PodmanOptions, enter_command, run_command
from modelyard.local.node.process.reaper import reap
from modelyard.local.node.proxy.addresses import PodAddress
from modelyard.local.node.storage.pod_folders import PodFolder
from tests.local.node.yard import runs

if TYPE_CHECKING:
    from pathlib import Path

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def test_bad_answers_count_once_a_period_and_good_ones_always() -> None:
    tally = Tally(Probe(period_seconds=10, failure_threshold=2, success_threshold=2), 0.0)
    assert [tally.add(float(now), good=False) for now in range(20)] == [None] * 20
    assert tally.add(20.0, good=False) is False
    assert [tally.add(21.0, good=True), tally.add(22.0, good=True)] == [None, True]


@pytest.mark.parametrize(("now", "left"), [(NOW, 30.0), ("2026-01-01T00:00:20Z", 10.0), (LATER, 1.0)])
def test_a_pod_has_what_is_left_of_its_grace(now: str, left: float) -> None:
    meta = Metadata(deletion_timestamp="2026-01-01T00:00:30Z", deletion_grace_period_seconds=30)
    assert grace_left(meta, datetime.fromisoformat(now)) == left


def test_a_clock_that_is_set_back_gives_a_pod_no_more_time() -> None:
    meta = Metadata(deletion_timestamp="2026-01-01T00:00:30Z", deletion_grace_period_seconds=30)
    assert grace_left(meta, datetime.fromisoformat("2025-12-31T00:00:00Z")) == 30.0


@pytest.mark.parametrize(
    ("limits", "limit"), [({}, None), ({"memory": "0"}, None), ({"memory": 0}, None), ({"memory": "1Ki"}, 1024)]
)
def test_a_memory_limit_of_0_is_none(limits: dict[str, str | int], limit: int | None) -> None:
    assert memory_limit(Container("main", resources=Resources(limits=limits))) == limit


def test_gpus_belong_to_one_container_at_a_time() -> None:
    gpus = Gpus(("0", "1", "2"))
    assert gpus.take("a", "main", 2) == ("0", "1")
    assert gpus.take("a", "main", 2) == ("0", "1")
    assert gpus.take("b", "main", 2) is None
    gpus.give_back("a")
    assert gpus.take("b", "main", 2) == ("0", "1")


def test_the_answer_of_nvidia_smi_is_read() -> None:
    assert listed_gpus("0, NVIDIA RTX 4090\n1, NVIDIA RTX 4090\n") == (
        Gpu("0", "NVIDIA RTX 4090"),
        Gpu("1", "NVIDIA RTX 4090"),
    )
    assert listed_gpus("No devices were found\n") == ()


def test_a_machine_with_gpus_says_so() -> None:
    hardware = Hardware(8, 2**34, 2**40, (Gpu("0", "NVIDIA RTX 4090"),), "amd64")
    assert hardware.capacity["nvidia.com/gpu"] == "1"
    assert hardware.allocatable == {**hardware.capacity, "cpu": "80"}
    assert hardware.labels["nvidia.com/gpu.product"] == "NVIDIA-RTX-4090"
    assert hardware.labels["nvidia.com/gpu.present"] == "true"


@pytest.mark.parametrize(
    ("pressure", "disk", "memory"),
    [
        (Pressure(disk=False, memory=False), ("False", NOW), ("False", NOW)),
        (Pressure(disk=True, memory=False), ("True", LATER), ("False", NOW)),
        (Pressure(disk=False, memory=True), ("False", NOW), ("True", LATER)),
        (Pressure(disk=False, memory=None), ("False", NOW), ("Unknown", LATER)),
    ],
)
def test_pressure_is_a_condition_of_the_node(
    pressure: Pressure, disk: tuple[str, str], memory: tuple[str, str]
) -> None:
    hardware = Hardware(8, 2**34, 2**40)
    fine = node_status.status("n", hardware, {}, NOW, port=0, pressure=Pressure(disk=False, memory=False))
    told = node_status.status("n", hardware, fine, LATER, port=10250, pressure=pressure)
    times = {entry["type"]: (entry["status"], entry["lastTransitionTime"]) for entry in told["conditions"]}
    assert times == {"DiskPressure": disk, "MemoryPressure": memory, "Ready": ("True", NOW)}
    assert told["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}


def test_memory_that_is_left_is_measured_and_not_assumed(tmp_path: Path) -> None:
    told = "MemTotal:       24684012 kB\nMemFree:         1000 kB\nMemAvailable:    2048 kB\n"
    assert available_memory(told) == 2 * 2**20
    assert available_memory("MemTotal: 24684012 kB\n") is None
    assert measure_pressure(tmp_path).memory is not None


def test_a_container_of_podman_listens_on_loopback_only_and_shows_no_secrets() -> None:
    container = Container("web", "docker.io/app:1", ports=(Port(80), Port(53, protocol="UDP")))
    address = PodAddress("127.97.0.9", None, "240.97.0.9")
    box = PodmanOptions("name", address, ("serve", "-v"), ("x",), (Mapped("/data", "/state/data"),), ("0", "1"), 2**30)
    assert run_command("podman", container, box, {"TOKEN": "hush"}) == (
        "podman",
        "run",
        "--rm",
        "--name=name",
        "--env=TOKEN",
        "--volume=/state/data:/data",
        "--publish=127.97.0.9:80:80",
        "--memory=1073741824",
        "--gpus=device=0,1",
        "--entrypoint=serve",
        "docker.io/app:1",
        "-v",
        "x",
    )


@pytest.mark.parametrize(("code", "works"), [(0, True), (1, False)])
async def test_podman_is_used_only_when_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, works: bool
) -> None:
    program = tmp_path / "podman"
    program.write_text(f"#!/bin/sh\nexit {code}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await Podman().program() == (str(program) if works else None)


def test_what_to_do_without_podman_depends_on_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Podman().remedy() == "install podman or docker"
    program = tmp_path / "docker"
    program.touch(mode=0o755)
    assert Podman().remedy() == "docker is there, but `docker info` fails: start its service"


def test_a_record_is_read_as_it_was_written_and_a_broken_one_is_none(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    record = ContainerRecord(7, "birth", "/folder", NOW, 2, last=Terminated(1, "Error", NOW, NOW))
    write_record(file, record)
    assert read_record(file) == record
    file.write_text("{")
    assert read_record(file) == ContainerRecord()


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"PATH": "/bin"}, None),
        ({"https_proxy": "http://proxy"}, "localhost,127.0.0.1,127.96.0.1,127.96.0.7"),
        ({"HTTP_PROXY": "http://proxy", "no_proxy": "a, b"}, "a,b,localhost,127.0.0.1,127.96.0.1,127.96.0.7"),
    ],
)
def test_processes_reach_this_machine_past_a_proxy(env: dict[str, str], expected: str | None) -> None:
    found = past_proxies(env, ("127.96.0.7", "127.96.0.1"))
    assert found == ({"NO_PROXY": expected, "no_proxy": expected} if expected else {})


async def test_a_copy_of_a_state_folder_ends_no_process_of_the_original(tmp_path: Path) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    process = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    folder = PodFolder(original, "uid").container("main")
    folder.make()
    write_record(folder.record, ContainerRecord(process.pid, procfs.birth(process.pid), str(folder.folder)))
    shutil.copytree(original, copy)
    reap(copy)
    assert runs(process.pid)
    reap(original)
    async with asyncio.timeout(60):
        assert await process.wait() == -signal.SIGKILL


async def test_processes_are_known_by_birth_children_memory_and_variables() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    pipe = asyncio.subprocess.PIPE
    mark = f"MARK_{os.getpid()}"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdin=pipe, env={mark: "1"})
    async with asyncio.timeout(60):
        while len(list(procfs.tree(process.pid))) < 2:
            await asyncio.sleep(0.02)
    tree = set(procfs.tree(process.pid))
    assert set(procfs.pids_with(f"{mark}=1")) == tree
    # In this order: a program that is still starting only grows.
    assert all(0 < procfs.exact_memory(pid) <= procfs.memory(pid) for pid in tree)
    assert procfs.birth(process.pid) == procfs.birth(process.pid) != ""
    await process.communicate(b"\n")
    assert procfs.birth(process.pid) == ""
    assert procfs.memory(process.pid) == 0


def test_a_command_for_a_box_runs_inside_of_it() -> None:
    assert enter_command("podman", "box", False) == ("podman", "exec", "--interactive", "box")
    assert enter_command("podman", "box", True) == ("podman", "exec", "--interactive", "--tty", "box")
