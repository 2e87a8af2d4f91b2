"""What this machine has, as a Node shows it."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.local.node.gpus import NVIDIA

if TYPE_CHECKING:
    from pathlib import Path

_PODS: Final = "110"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_ANSWER_SECONDS: Final = 10.0
# Below this, programs begin to fail in ways that are hard to understand, so no further pods are taken.
_LEAST_DISK: Final = 256 * 2**20


class Gpu(Struct, frozen=True):
    """One GPU."""

    index: str
    model: str


class Machine(Struct, frozen=True):
    """What the scheduler may count on, and what `kubectl describe node` tells."""

    cpus: int
    memory: int
    disk: int
    gpus: tuple[Gpu, ...] = ()
    architecture: str = ""
    """The processor, as images name it."""

    @property
    def capacity(self) -> dict[str, str]:
        """Amounts, as Kubernetes writes them."""
        gpus = {NVIDIA: str(len(self.gpus))} if self.gpus else {}
        return {
            "cpu": str(self.cpus),
            "memory": f"{self.memory // 1024}Ki",
            "ephemeral-storage": f"{self.disk // 1024}Ki",
            "pods": _PODS,
            **gpus,
        }

    @property
    def labels(self) -> dict[str, str]:
        """The labels by which pods choose a node."""
        gpu = {"nvidia.com/gpu.product": self.gpus[0].model.replace(" ", "-")} if self.gpus else {}
        metal = {"modelyard.dev/gpu": "metal"} if (sys.platform, self.architecture) == ("darwin", "arm64") else {}
        return {"kubernetes.io/os": sys.platform, "kubernetes.io/arch": self.architecture, **gpu, **metal}


async def look_around(state: Path) -> Machine:
    """Measure this machine. The disk is the one that holds the state folder."""
    return Machine(
        cpus=_cpus(),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        disk=shutil.disk_usage(state).total,
        gpus=await _nvidia(),
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
    )


def is_disk_full(state: Path) -> bool:
    """Whether the disk that holds the state folder has next to nothing left."""
    return shutil.disk_usage(state).free < _LEAST_DISK


def _cpus() -> int:
    # Less than the machine has when we ourselves are confined to some of its processors.
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
    """Read the answer of nvidia-smi."""
    rows = (line.partition(",") for line in answer.splitlines())
    return tuple(Gpu(index.strip(), name.strip()) for index, comma, name in rows if comma)
