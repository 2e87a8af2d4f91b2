"""How a test run is shared out: to how many processes, and which tests stay together in one."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Final

from xdist.scheduler import LoadScopeScheduling

_MOST: Final = 8
"""Each process starts a control plane of its own, which costs 10 s of CPU and 500 MB."""
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
_ALONE: Final = tuple(f"tests/e2e/test_{name}.py" for name in ("killed", "fleet", "two_machines"))
_LONGEST_FIRST: Final = ("e2e", "faults", "api", "local")


class Shares(LoadScopeScheduling):
    """Hands out tests by file, because most fixtures that cost something are shared by a file.

    Exceptions: `e2e` shares one machine that is up, but for the files that start machines of their own; and tests of
    faults share nothing but the cluster.
    """

    def _split_scope(self, nodeid: str) -> str:
        folder, file = folder_of(nodeid), nodeid.partition("::")[0]
        if folder == "e2e" and file not in _ALONE:
            return folder
        return nodeid.partition("[")[0] if folder == "faults" else file


def folder_of(nodeid: str) -> str:
    """Return the folder of a test below `tests/`."""
    return nodeid.split("/")[1]


def turn(nodeid: str) -> int:
    """Return when a test is handed out: what takes long comes first, so that small things fill the gaps at the end."""
    folder = folder_of(nodeid)
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)


def processes() -> int:
    """Return how many processes a run takes, within bounds: one more than cores, for what waits."""
    return min(_cores() + 1, _MOST)


def _cores() -> int:
    """Return the cores that this process may use. A container may have less time than the cores it sees would give."""
    seen = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, period = _QUOTA.read_text().split() if _QUOTA.exists() else ("max", "")
    return seen if quota == "max" else min(seen, math.ceil(int(quota) / int(period)))
