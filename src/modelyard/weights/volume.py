"""The folder that weights are put into: may it be written, is there room, and what its errors mean."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from modelyard.core.exitcodes import Code
from modelyard.weights.failures import FetchFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARGIN: Final = 16 * 1024 * 1024
"""Left free: a volume that is full to the last byte breaks every other pod that uses it."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST})


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn an OSError of the block into a `FetchFailed` with a remedy."""
    try:
        yield
    except OSError as error:
        raise _failure(error, folder) from error


def prepare(folder: Path) -> None:
    """Make the folder, and fail now, before any download, if it cannot be written."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        trial = folder / f".writable-{os.getpid()}-{os.urandom(4).hex()}"
        trial.touch()
        trial.unlink()


def check_room(folder: Path, needed: int) -> None:
    """Refuse a fetch that does not fit on the volume. A volume that does not report its size is not checked."""
    with explained(folder):
        volume = os.statvfs(folder)
    free = volume.f_bavail * volume.f_frsize
    if needed and volume.f_blocks and free < needed + MARGIN:
        message = f"{needed + MARGIN} bytes are needed and {free} bytes are free in {folder}"
        raise FetchFailed(Code.NO_SPACE, message, f"enlarge the volume; {MARGIN} bytes of it are kept free")


def sync_folder(folder: Path) -> None:
    """Make renames survive a power cut."""
    with explained(folder):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        except OSError as error:
            # Some network file systems do not sync folders; their renames are safe once they are answered.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
                raise
        finally:
            os.close(handle)


def _failure(error: OSError, folder: Path) -> FetchFailed:
    if error.errno in _FULL:
        return FetchFailed(Code.NO_SPACE, f"the volume of {folder} is full", "enlarge it, or remove what is not used")
    if error.errno == errno.ENAMETOOLONG:
        message = f"a file of the source has a name that is too long for the volume of {folder}"
        return FetchFailed(Code.REFUSED, message, "use a source with shorter names")
    if error.errno in _CLOSED:
        message = f"{folder} cannot be written ({error.strerror})"
        return FetchFailed(Code.NOT_WRITABLE, message, "mount it for writing; set fsGroup so that this user may")
    return FetchFailed(Code.TRANSIENT, f"the volume of {folder} failed ({error.strerror})", "check the volume")
