"""The lock of a folder: one fetch at a time, where the volume knows locks.

Without it, two pods with the same Model would download the same file twice, and one could sweep the partial files of
the other. The kernel drops the lock of a process that dies. Where there are no locks, nothing waits: partial files then
have names of their own, and the last rename wins with a whole file.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from modelyard.weights.names import LOCK
from modelyard.weights.volume import explained

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

_LOOK_AGAIN: Final = 0.5
_UNKNOWN: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF})


@asynccontextmanager
async def exclusive(folder: Path, waiting: Callable[[], None]) -> AsyncIterator[bool]:
    """Hold the lock for a block; yield False if the volume knows none. `waiting` is called once if it has to wait."""
    with explained(folder):
        handle = _open(folder / LOCK)
    try:
        with explained(folder):
            held = await _acquire(handle, waiting)
        yield held
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        # Made by another user of the volume; most file systems lock what is open for reading.
        return os.open(path, os.O_RDONLY)


async def _acquire(handle: int, waiting: Callable[[], None]) -> bool:
    told = False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                waiting()
            told = True
            await asyncio.sleep(_LOOK_AGAIN)
        except OSError as error:
            if error.errno in _UNKNOWN:
                return False
            raise
        else:
            return True
