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
_LONGEST_FIRST: Final = ("e2e", "faults", "api", "local", "host", "image", "page", "chart", "envoy", "weights")
_E2E: Final = "tests/e2e/test_"
_OF_ONE_MACHINE: Final = {
    "the machine with a canary": tuple(f"{_E2E}{name}.py" for name in ("canary", "httproute")),
    "a control plane without a node": tuple(
        f"tests/local/node/{name}" for name in ("metrics/", "proxy/test_service_proxy.py", "server/", "storage/")
    ),
}
"""What files share that it takes seconds to start, and the beginnings of their names."""
_OWN_MACHINES: Final = tuple(f"{_E2E}{name}.py" for name in ("fleet", "killed", "stack", "two_machines", "walk"))


class Shares(LoadScopeScheduling):
    """Hands out tests by file, because most fixtures that cost something are shared by a file.

    Exceptions: files that share a machine stay together, as do those of `e2e` that start none of their own; and tests
    of faults share nothing but the cluster.
    """

    def _split_scope(self, nodeid: str) -> str:
        folder, file = folder_of(nodeid), nodeid.partition("::")[0]
        for machine, files in _OF_ONE_MACHINE.items():
            if file.startswith(files):
                return machine
        if folder == "e2e" and file not in _OWN_MACHINES:
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
