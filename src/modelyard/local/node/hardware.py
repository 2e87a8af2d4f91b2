"""The capacity of this machine and what is left of it, as the status of a Node shows them. `node` measures."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

from modelyard.local.node.pods.gpus import NVIDIA

_PODS: Final = "110"
_PODS_PER_CPU: Final = 10
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_ANSWER_SECONDS: Final = 10.0
# Below this, programs fail in ways that are hard to understand; under DiskPressure no further pods are scheduled.
_LEAST_DISK: Final = 256 * 2**20
# The default of the kubelet for `memory.available`.
_LEAST_MEMORY: Final = 100 * 2**20
_MEMORY: Final = Path("/proc/meminfo")


class Gpu(Struct, frozen=True):
    """One NVIDIA GPU: its number and product name."""

    index: str
    model: str


class Hardware(Struct, frozen=True):
    """CPUs, memory, disk and GPUs of this machine."""

    cpus: int
    memory: int
    disk: int
    gpus: tuple[Gpu, ...] = ()
    architecture: str = ""
    """The CPU architecture as images name it, such as `amd64`."""

    @property
    def capacity(self) -> dict[str, str]:
        """The `capacity` of the Node: quantities by resource name."""
        gpus = {NVIDIA: str(len(self.gpus))} if self.gpus else {}
        return {
            "cpu": str(self.cpus),
            "memory": f"{self.memory // 1024}Ki",
            "ephemeral-storage": f"{self.disk // 1024}Ki",
            "pods": _PODS,
            **gpus,
        }

    @property
    def allocatable(self) -> dict[str, str]:
        """The `allocatable` of the Node: what the scheduler may give to pods, which of CPUs is more than there are.

        Processes share the CPUs, and no CPU limit holds here. The requests of idle pods, and those of init containers
        that have ended, would fill a small machine that has nothing to do.
        """
        return {**self.capacity, "cpu": str(self.cpus * _PODS_PER_CPU)}

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the Node by which pods select it."""
        model = self.gpus[0].model.replace(" ", "-") if self.gpus else ""
        gpu = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": model} if self.gpus else {}
        metal = {"modelyard.dev/gpu": "metal"} if (sys.platform, self.architecture) == ("darwin", "arm64") else {}
        return {"kubernetes.io/os": sys.platform, "kubernetes.io/arch": self.architecture, **gpu, **metal}


async def measure_hardware(state: Path) -> Hardware:
    """Measure this machine. The disk is the one of the state folder, the GPUs are those that nvidia-smi lists."""
    return Hardware(
        cpus=_cpus(),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        disk=shutil.disk_usage(state).total,
        gpus=await _nvidia(),
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
    )


class Pressure(Struct, frozen=True):
    """Whether the machine is short of disk or memory: the conditions DiskPressure and MemoryPressure."""

    disk: bool
    memory: bool | None = None
    """None: the system does not tell."""


def measure_pressure(state: Path) -> Pressure:
    """Measure what is left of disk and memory. The disk is the one of the state folder."""
    memory = available_memory(_MEMORY.read_text()) if _MEMORY.exists() else None
    return Pressure(
        disk=shutil.disk_usage(state).free < _LEAST_DISK,
        memory=None if memory is None else memory < _LEAST_MEMORY,
    )


def available_memory(told: str) -> int | None:
    """Return MemAvailable of a /proc/meminfo in bytes; None: it is not in there."""
    fields = (line.split() for line in told.splitlines() if line.startswith("MemAvailable:"))
    return next((int(amount) * 1024 for _, amount, *_ in fields), None)


def _cpus() -> int:
    # Those of our own CPU affinity: a pod inherits it, and gets no more.
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


async def _nvidia() -> tuple[Gpu, ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    process = await asyncio.create_subprocess_exec(
        program,
        "--query-gpu=index,name",
        "--format=csv,noheader",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            answer, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return ()
    return listed_gpus(answer.decode(errors="replace")) if process.returncode == 0 else ()


def listed_gpus(answer: str) -> tuple[Gpu, ...]:
    """Return the GPUs in a listing of nvidia-smi, which is CSV of index and name."""
    rows = (line.partition(",") for line in answer.splitlines())
    return tuple(Gpu(index.strip(), name.strip()) for index, comma, name in rows if comma)
