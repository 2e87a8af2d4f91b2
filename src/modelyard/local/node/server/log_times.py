"""When each line of a log was written, to the second: for `kubectl logs --timestamps` and `--since`.

In a cluster the container runtime writes the times. Here processes write their logs themselves, so the size of every
log is noted each second, in memory. Lines from before the last start of the node have the modification time of their
file. `kubelet_server` runs it; it also trims logs that have grown too long.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import defaultdict
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NoReturn

from msgspec import Struct

from modelyard.local.node.server.log_rotation import trim
from modelyard.local.node.storage.pod_folders import container_folders

if TYPE_CHECKING:
    import os
    from pathlib import Path

_EVERY_SECONDS: Final = 1.0
_MOST_MARKS: Final = 4096

_File = tuple[int, int]


class _Mark(Struct, frozen=True):
    """The size of a log at a time."""

    size: int
    at: float


class LogTimes:
    """The growth of the logs of all containers. Logs are told apart by inode, so a renamed one keeps its times."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._marks: defaultdict[_File, list[_Mark]] = defaultdict(list)

    async def run(self) -> NoReturn:
        """Note the size of every log each second, until cancelled."""
        while True:
            with suppress(FileNotFoundError):  # the folder of a pod may be removed while it is read
                self.note()
            await asyncio.sleep(_EVERY_SECONDS)

    def note(self) -> None:
        """Note the logs that have grown since the last call, and drop those that are gone."""
        present: set[_File] = set()
        for folder in container_folders(self._state):
            present |= {_file(self._note(log)) for log in (folder.log, folder.previous_log) if log.exists()}
        for gone in self._marks.keys() - present:
            del self._marks[gone]

    def written(self, log: os.stat_result, offset: int) -> float:
        """Return the Unix time at which the byte before an offset was written."""
        marks = self._marks.get(_file(log), [])
        index = bisect_left(marks, offset, key=attrgetter("size"))
        return marks[index].at if index < len(marks) else log.st_mtime

    def offset(self, log: os.stat_result, since: float) -> int:
        """Return the size that a log had at a Unix time; 0: it was written later."""
        if log.st_mtime < since:
            return log.st_size
        marks = self._marks.get(_file(log), [])
        index = bisect_left(marks, since, key=attrgetter("at"))
        return marks[index - 1].size if index else 0

    def _note(self, log: Path) -> os.stat_result:
        trim(log)
        found = log.stat()
        marks = self._marks[_file(found)]
        if marks and found.st_size < marks[-1].size:
            marks.clear()  # another log: the file system has used the inode of a removed one again
        if not marks or found.st_size > marks[-1].size:
            marks.append(_Mark(found.st_size, found.st_mtime))
        if len(marks) > _MOST_MARKS:
            # Every other one of the older half goes: times of old lines become less exact, and memory stays bounded.
            del marks[: _MOST_MARKS // 2 : 2]
        return found


def _file(found: os.stat_result) -> _File:
    return found.st_dev, found.st_ino
