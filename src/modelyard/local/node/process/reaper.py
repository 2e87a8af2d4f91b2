"""The end of processes that outlived their node.

A process is known by its number and its birth. Those that were started in the moment before a crash, and what such
processes have started, are known by a variable that names the node; another one names the container.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from modelyard.local.node.process import procfs
from modelyard.local.node.process.container_record import ContainerRecord, read_record
from modelyard.local.node.storage.pod_folders import container_folders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARK: Final = "MODELYARD_NODE"
CONTAINER_MARK: Final = "MODELYARD_CONTAINER"
_REMOVE_SECONDS: Final = 30
_PASSES: Final = 100
_PASS_SECONDS: Final = 0.02


def mark(state: Path) -> str:
    """Return the variable that marks every process of the node of this state folder."""
    return f"{MARK}={state}"


def reap(state: Path) -> None:
    """End all processes of an earlier node of this state folder, and wait for that. Nobody else's are touched."""
    for record in _own_records(state):
        if record.pid and record.birth and procfs.birth(record.pid) == record.birth:
            kill_group(record.pid)
        if record.pid and record.remove:
            _run(record.remove)
    kill_marked(mark(state))


def _own_records(state: Path) -> Iterator[ContainerRecord]:
    found = ((each.folder, read_record(each.record)) for each in container_folders(state))
    return (record for folder, record in found if record.folder == str(folder))


def kill_marked(variable: str) -> None:
    """End all processes that were started with a variable, also those that have left their group, and wait for that."""
    # More than once: one of them may start another while we look, and dying takes a moment.
    for _ in range(_PASSES):
        found = list(procfs.pids_with(variable))
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PASS_SECONDS)


def kill_group(leader: int) -> None:
    """Kill a process and what it has started; none of them may be there any more."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _run(command: tuple[str, ...]) -> None:
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, check=False, timeout=_REMOVE_SECONDS)  # noqa: S603 - our own words
