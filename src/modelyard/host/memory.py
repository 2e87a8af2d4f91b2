"""The memory of a host: its budget for models, what each of them needs, and how short of memory the machine is.

A load that does not fit is refused before it starts: a machine that runs out of memory takes all models with it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from modelyard.host.refusals import LoadFailed
from modelyard.host.wire import Code
from modelyard.local.node.hardware import available_memory

GIB: Final = 2**30
_SMALL: Final = 36 * GIB
_SMALL_SHARE: Final = 0.67
_LARGE_SHARE: Final = 0.75
"""macOS lets a GPU wire no more of the memory than about this; elsewhere the rest is for other programs."""
_OVERHEAD: Final = 512 * 2**20
_PER_WEIGHT: Final = 1.2
_WARNING: Final = 0.20
_CRITICAL: Final = 0.10
_MORE: Final = 0.05
"""So much more has to be available before a level counts as over: each change is a write to the status of the host."""
_ANSWER_SECONDS: Final = 10.0
_MEMINFO: Final = Path("/proc/meminfo")
_RECLAIMABLE: Final = ("Pages free", "Pages inactive", "Pages speculative", "Pages purgeable")


class Pressure(StrEnum):
    """How short of memory a machine is."""

    NORMAL = "normal"
    WARNING = "warning"
    CRITICAL = "critical"


class Capacity(Struct, frozen=True):
    """The memory of a machine that models may take."""

    budget: int
    gpu_total: int = 0
    """The memory of all NVIDIA GPUs together; 0: there is none."""


class MemoryLedger:
    """The reservations of all models of a host, which never add up to more than its budget."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._reserved: dict[str, int] = {}

    @property
    def free(self) -> int:
        """The bytes that no model has reserved."""
        return self.budget - sum(self._reserved.values())

    def reserved(self, model: str) -> int:
        """Return the bytes that a model holds; 0: none."""
        return self._reserved.get(model, 0)

    def fits(self, model: str, need: int) -> bool:
        """Whether a model could reserve this much in place of what it holds."""
        return need <= self.free + self.reserved(model)

    def reserve(self, model: str, need: int) -> None:
        """Reserve memory for a model, in place of what it holds; `LoadFailed` when it does not fit."""
        if not self.fits(model, need):
            left = self.free + self.reserved(model)
            message = (
                f"{need} bytes are needed, and {left} of {self.budget} are free; "
                "unload another model, or set memory or --memory if this is wrong"
            )
            raise LoadFailed(Code.INSUFFICIENT_MEMORY, message, is_final=True)
        self._reserved[model] = need

    def release(self, model: str) -> None:
        """Give back what a model holds. It is fine when it holds nothing."""
        self._reserved.pop(model, None)


def budget_of(total: int) -> int:
    """Return how much of the memory of a machine models may take together."""
    return int(total * (_SMALL_SHARE if total <= _SMALL else _LARGE_SHARE))


def need_of(weights: int) -> int:
    """Return how much memory a model needs, from the size of its files: room for the cache of tokens and buffers."""
    return int(weights * _PER_WEIGHT) + _OVERHEAD


def pressure_of(available: float | None, before: Pressure = Pressure.NORMAL) -> Pressure:
    """Return the pressure of a machine of whose memory this fraction is available; None: the system does not tell."""
    if available is None:
        return Pressure.NORMAL
    if available < _CRITICAL + (_MORE if before is Pressure.CRITICAL else 0):
        return Pressure.CRITICAL
    return (
        Pressure.WARNING if available < _WARNING + (_MORE if before is not Pressure.NORMAL else 0) else Pressure.NORMAL
    )


async def measure_capacity(budget: int | None) -> Capacity:
    """Measure what models may take. None: by the rule; the memory of GPUs counts where there are NVIDIA GPUs."""
    gpus = gpu_memory(await _answer("nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"))
    return Capacity(budget or gpus or budget_of(_total()), gpus)


async def measure_available() -> float | None:
    """Measure which fraction of the memory of this machine programs could still get; None: the system does not tell."""
    if sys.platform == "darwin":
        available = vm_stat_available(await _answer("vm_stat"))
    else:
        available = available_memory(_MEMINFO.read_text()) if _MEMINFO.exists() else None
    return None if available is None else available / _total()


def gpu_memory(answer: str) -> int:
    """Return the bytes of all GPUs in a listing of nvidia-smi, which is one number of MiB per line."""
    return sum(int(line) * 2**20 for line in answer.split() if line.isdigit())


def vm_stat_available(text: str) -> int | None:
    """Return the bytes that macOS could give to programs, from what vm_stat prints; None: it does not say."""
    page = re.search(r"page size of (\d+) bytes", text)
    counts = re.findall(r"^([^:\n]+):\s+(\d+)\.$", text, re.MULTILINE)
    pages = [int(count) for name, count in counts if name in _RECLAIMABLE]
    return int(page[1]) * sum(pages) if page and pages else None


def _total() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


async def _answer(program: str, *args: str) -> str:
    """Return what a program prints; empty: it is missing, fails, or takes too long."""
    found = shutil.which(program)
    if found is None:
        return ""
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        found, *args, stdin=quiet, stdout=asyncio.subprocess.PIPE, stderr=quiet
    )
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return ""
    return output.decode(errors="replace") if process.returncode == 0 else ""
