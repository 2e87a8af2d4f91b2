"""Files and folders that only this user can read, replaced in one step, and locks on files.

Everything in `local` that keeps state on disk uses it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_NEXT_FILE: Final = 64 * 2**20
_NOT_IN_FILE_NAMES = re.compile(r"[^a-zA-Z0-9.]+")


def private_folder(folder: Path) -> Path:
    """Create a folder that only this user can enter, or make an existing one so; return it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write_private(file: Path, content: bytes) -> Path:
    """Replace a file in one step, readable by this user only, and return it. A crash leaves the old or the new one."""
    partial = file.with_name(f".{file.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    return partial.replace(file)


def folder_size(folder: Path) -> int:
    """Return how many bytes the files below a folder have; links count nothing, and neither do files that vanish."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                found = os.lstat(os.path.join(place, name))  # noqa: PTH118 - a Path for each of 100,000 files is slow
                total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


def is_full(folder: Path) -> bool:
    """Return whether the disk of a folder has no room for what etcd writes next: a file of 64 MiB."""
    return shutil.disk_usage(folder).free < _NEXT_FILE


def try_lock(descriptor: int) -> bool:
    """Take the exclusive lock on an open file; return False when another process holds it.

    The kernel releases it with the last copy of the descriptor, however its process ends.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def file_name(*words: str) -> str:
    """Return a safe file name made of these words, such as `system-kube-scheduler`."""
    return "-".join(_NOT_IN_FILE_NAMES.sub("-", word).strip("-.") for word in words if word)


def tail(file: Path, lines: int = 12, size: int = 8_192) -> str:
    """Return the last lines of a log, out of its last bytes."""
    with file.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - size))
        return "\n".join(stream.read().decode(errors="replace").splitlines()[-lines:])
