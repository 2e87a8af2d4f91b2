"""The record of a container on disk: what the next node must know of it. In a cluster the container runtime keeps it.

`container_worker` writes it, as `state.json` in the folder of the container; the reaper and the server of logs read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from modelyard.local.files import write_private
from modelyard.local.node.process.container_state import Terminated

if TYPE_CHECKING:
    from pathlib import Path


class ContainerRecord(Struct, frozen=True):
    """What the next node must know of one container. The names of the fields are those of the file."""

    pid: int = 0
    """The process that runs, or ran when the node ended; 0: none."""
    birth: str = ""
    """The start time of that process: the kernel may have given its number to another one since."""
    folder: str = ""
    """The folder of the container then. In a copy of the state folder it differs: the process is the original's."""
    started: str = ""
    restarts: int = 0
    """The restarts so far; between two runs, with the one that is due."""
    ended: Terminated | None = None
    """How its last run ended; None: it is to run again."""
    last: Terminated | None = None
    """How the run before this one ended; None: there was none."""
    remove: tuple[str, ...] = ()
    """The command that removes it from podman or docker; empty: it is a process."""

    @property
    def is_between_runs(self) -> bool:
        """Whether a run has ended and the next has not begun, so that the newest log is that of the previous run."""
        return self.last is not None and self.ended is None and not self.pid


def read_record(file: Path) -> ContainerRecord:
    """Return the record of a container; an empty one when there is no file, or a damaged one."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=ContainerRecord)
    except (OSError, msgspec.MsgspecError):
        return ContainerRecord()


def write_record(file: Path, record: ContainerRecord) -> None:
    """Replace the record of a container on disk, in one step."""
    write_private(file, msgspec.json.encode(record))
