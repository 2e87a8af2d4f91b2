"""What the system tells about processes: when they were born, their children, their memory, their variables.

On Linux from /proc. Elsewhere only births are known (by `ps`); trees, memory and variables are not.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC: Final = Path("/proc")
# The start time is the 22nd field; the second, the name in brackets, may itself hold spaces and brackets.
_BIRTH_AFTER_NAME: Final = 19
_COUNTED: Final = ("RssAnon:", "RssShmem:")
_COUNTED_EXACTLY: Final = ("Pss_Anon:", "Pss_Shmem:")


def birth(pid: int) -> str:
    """Return when a process began, to tell it from a later one with the same number; empty when there is none."""
    if sys.platform != "linux":
        return _birth_by_ps(pid)
    with suppress(OSError, IndexError):
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[_BIRTH_AFTER_NAME]
    return ""


def _birth_by_ps(pid: int) -> str:
    answer = subprocess.run(["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, check=False)  # noqa: S603 - fixed words and a number
    return answer.stdout.decode(errors="replace").strip()


def tree(pid: int) -> Iterator[int]:
    """Return a process and all that descend from it, as far as they can be seen."""
    yield pid
    with suppress(OSError):
        for thread in (_PROC / str(pid) / "task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from tree(int(child))


def memory(pid: int) -> int:
    """Return how many bytes a process holds that cannot be had back: files that it has mapped do not count.

    What it shares with others counts in full, so the sum over a tree may be too high, and is never too low.
    """
    return _counted(_PROC / str(pid) / "status", _COUNTED)


def exact_memory(pid: int) -> int:
    """Return the same, with only its part of what it shares. That takes the system a hundred times as long."""
    return _counted(_PROC / str(pid) / "smaps_rollup", _COUNTED_EXACTLY)


def _counted(file: Path, names: tuple[str, ...]) -> int:
    with suppress(OSError):
        lines = file.read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))
    return 0


def pids_with(variable: str) -> Iterator[int]:
    """Return the processes of ours that were started with a variable such as `NAME=value`."""
    wanted = variable.encode()
    for folder in _PROC.iterdir() if _PROC.is_dir() else ():
        if folder.name.isdigit():
            # Other users' processes cannot be read, and any may end meanwhile.
            with suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


def prefer_oom_kill(pid: int) -> None:
    """Let the system end this process before others, the control plane above all, when memory runs out."""
    with suppress(OSError):
        (_PROC / str(pid) / "oom_score_adj").write_text("500")
