"""Trim the logs of containers so that they do not fill the disk: the kubelet's log rotation.

`log_times` calls it each second. The process that writes a log cannot be told to open another file, so the oldest part
is given back to the file system as a hole (Linux). Nothing moves: writers go on writing, readers go on reading, and an
offset still means the same line. On other systems logs are not trimmed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES: Final = 64 * 2**20
"""The longest log that is kept whole. A longer one is trimmed to half of this."""

_BLOCK: Final = 512
# FALLOC_FL_PUNCH_HOLE, which is allowed only together with FALLOC_FL_KEEP_SIZE.
_PUNCH: Final = 0x02 | 0x01


def trim(log: Path, most: int = MOST_BYTES) -> None:
    """Punch a hole for the oldest part of a log that takes more than `most` bytes of the disk."""
    found = log.stat()
    if sys.platform != "linux" or found.st_blocks * _BLOCK <= most:
        return
    with suppress(OSError), log.open("rb+") as stream:
        _punch(stream.fileno(), found.st_size - most // 2)


def _punch(descriptor: int, length: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(descriptor, _PUNCH, ctypes.c_int64(0), ctypes.c_int64(length)) != 0:
        # Some file systems have no holes. The caller leaves such a log as it is.
        raise OSError(ctypes.get_errno(), "fallocate")


def first_kept_byte(descriptor: int) -> int:
    """Return the offset of the first byte of an open log that was not trimmed. The position of the file stays."""
    if sys.platform != "linux":
        return 0
    here = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        return os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return 0  # it is empty
    finally:
        os.lseek(descriptor, here, os.SEEK_SET)
