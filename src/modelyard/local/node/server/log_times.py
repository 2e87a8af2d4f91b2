"""When the lines of logs were written, to the second.

Processes write their logs themselves, without a time on any line. So the size of every log is noted as it grows, in
memory: lines from before the last start of the node have the time at which their file was last written.
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
    """A log had this size when it was written to at this time."""

    size: int
    at: float


class LogTimes:
    """How the logs of all containers have grown. A log that is renamed stays the same log."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._marks: defaultdict[_File, list[_Mark]] = defaultdict(list)

    async def run(self) -> NoReturn:
        """Note sizes until cancelled."""
        while True:
            with suppress(FileNotFoundError):  # a pod was removed meanwhile
                self.note()
            await asyncio.sleep(_EVERY_SECONDS)

    def note(self) -> None:
        """Note what has grown since the last time, and forget what is gone."""
        present: set[_File] = set()
        for folder in container_folders(self._state):
            present |= {_file(self._note(log)) for log in (folder.log, folder.previous_log) if log.exists()}
        for gone in self._marks.keys() - present:
            del self._marks[gone]

    def written(self, log: os.stat_result, offset: int) -> float:
        """Return when the byte before this offset was written."""
        marks = self._marks.get(_file(log), [])
        index = bisect_left(marks, offset, key=attrgetter("size"))
        return marks[index].at if index < len(marks) else log.st_mtime

    def offset(self, log: os.stat_result, since: float) -> int:
        """Return how much of a log was written before a point in time."""
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
            marks.clear()  # another log, in the place on the disk that the first has left
        if not marks or found.st_size > marks[-1].size:
            marks.append(_Mark(found.st_size, found.st_mtime))
        if len(marks) > _MOST_MARKS:
            # What is long ago is known less exactly.
            del marks[: _MOST_MARKS // 2 : 2]
        return found


def _file(found: os.stat_result) -> _File:
    return found.st_dev, found.st_ino
