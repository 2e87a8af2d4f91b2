"""Measure the machine and the pods of a state folder when asked, and only then: at rest it costs nothing.

`metrics_server` asks. In a cluster the kubelet measures, by cgroups. Here what counts is the process of a container
with all its descendants; a process that has left this tree is not seen. Linux only: elsewhere nothing is measured.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modelyard.local.node.hardware import available_memory
from modelyard.local.node.metrics.usage import Measured, Reading, RunningContainer, Snapshot, measured
from modelyard.local.node.process import procfs
from modelyard.local.node.process.container_record import ContainerRecord, read_record
from modelyard.local.node.storage.pod_folders import PodFolder, pod_uids

if TYPE_CHECKING:
    from collections.abc import Iterator

# A clock tick is 10 ms, so CPU time over a second is known to one hundredth.
_SHORTEST_WINDOW: Final = 1.0
# The autoscaler asks every 15 s, and is told what was used since it last asked.
_LONGEST_WINDOW: Final = 30.0
_MEMORY: Final = Path("/proc/meminfo")


class Sampler:
    """Takes snapshots of the machine and its containers, and remembers the last one."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._last: Snapshot | None = None
        self._answer = Measured()
        self._one_at_a_time = asyncio.Lock()

    async def measure(self) -> Measured:
        """Return what is in use: on average since the last question, if that was a moment ago, else over a second."""
        if sys.platform != "linux":
            return Measured()
        async with self._one_at_a_time:
            before = self._last
            age = _now() - before.machine.at if before else _LONGEST_WINDOW
            if age < _SHORTEST_WINDOW:
                return self._answer
            if before is None or age >= _LONGEST_WINDOW:
                before = await asyncio.to_thread(_snapshot, self._state)
                await asyncio.sleep(_SHORTEST_WINDOW)
            self._last = await asyncio.to_thread(_snapshot, self._state)
            self._answer = measured(before, self._last)
            return self._answer


def _now() -> float:
    # The clock of the start times of processes. It goes on while the machine sleeps.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _snapshot(state: Path) -> Snapshot:
    containers = {container: _read(pid) for container, pid in _running(state)}
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    available = available_memory(_MEMORY.read_text()) or 0
    return Snapshot(Reading(_now(), procfs.machine_cpu_seconds(), total - available), containers)


def _read(pid: int) -> Reading:
    at, tree = _now(), list(procfs.tree(pid))
    # Processes of one tree may share memory; the exact sum takes long, and one process has no one to share with.
    held = procfs.memory if len(tree) == 1 else procfs.exact_memory
    return Reading(at, sum(map(procfs.cpu_seconds, tree)), sum(map(held, tree)))


def _running(state: Path) -> Iterator[tuple[RunningContainer, int]]:
    """Yield the running containers with their process, of all pods but those with one of podman or docker.

    What such a container uses is not in the tree of our process, and a pod is measured as a whole or not at all.
    """
    for uid in pod_uids(state):
        records = dict(_records(PodFolder(state, uid)))
        if any(record.remove for record in records.values()):
            continue
        for name, record in records.items():
            yield RunningContainer(uid, name, procfs.started(record.birth)), record.pid


def _records(pod: PodFolder) -> Iterator[tuple[str, ContainerRecord]]:
    for folder in pod.containers():
        record = read_record(folder.record)
        # Another process may have got the number since.
        if record.pid and record.birth and procfs.birth(record.pid) == record.birth:
            yield folder.folder.name, record
