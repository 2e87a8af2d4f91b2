"""What is remembered of each container on disk, in `state.json` of its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from modelyard.local.files import write_private
from modelyard.local.node.process.container_state import Terminated

if TYPE_CHECKING:
    from pathlib import Path


class ContainerRecord(Struct, frozen=True):
    """What outlives the node about one container."""

    pid: int = 0
    """The process that runs, or ran when the node ended; 0: none."""
    birth: str = ""
    folder: str = ""
    """Where the container's files were then. In a copy of the state folder, the process is somebody else's."""
    started: str = ""
    restarts: int = 0
    ended: Terminated | None = None
    """How it ended, if it is not to run again."""
    last: Terminated | None = None
    remove: tuple[str, ...] = ()
    """The command that ends it, if it is more than a process."""

    @property
    def is_between_runs(self) -> bool:
        """Whether it has ended and is to run again, so that its last log is that of the run before."""
        return self.last is not None and self.ended is None and not self.pid


def read_record(file: Path) -> ContainerRecord:
    """Return what is remembered; nothing when there is no record, or only a broken one."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=ContainerRecord)
    except (OSError, msgspec.MsgspecError):
        return ContainerRecord()


def write_record(file: Path, record: ContainerRecord) -> None:
    """Remember."""
    write_private(file, msgspec.json.encode(record))
