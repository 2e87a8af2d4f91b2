"""Kill the processes that outlived their node, as an init process would. Only those of one state folder.

`reaper_process` calls it when a node has ended, and again before the next one starts. A process is found by its number
and start time in a record. One that was started in the moment before a crash has no record yet; it, and whatever it
has started, is found by the variable that marks every process of the node. Another variable marks the container.
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
    """Return the `NAME=value` that marks every process of the node of a state folder."""
    return f"{MARK}={state}"


def reap(state: Path) -> None:
    """Kill all processes of an earlier node of this state folder, and return when they are gone.

    Blocks for as long as that takes, which is up to half a minute for a container of podman.
    """
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
    """Kill all processes that carry a `NAME=value`, whatever their process group, and return when they are gone."""
    # In passes: a process may fork between the listing and its death, and the kernel needs a moment to end it.
    for _ in range(_PASSES):
        found = list(procfs.pids_with(variable))
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PASS_SECONDS)


def kill_group(leader: int) -> None:
    """Kill the process group of a leader. It is fine when none of the group is left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _run(command: tuple[str, ...]) -> None:
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, check=False, timeout=_REMOVE_SECONDS)  # noqa: S603 - our own words
