"""What the kernel tells about processes: start times, children, CPU time, memory and environment variables.

On Linux from /proc. Elsewhere only start times are known, from `ps`: there are no memory limits and no metrics there,
and only the processes in a record are reaped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC: Final = Path("/proc")
# The fields 14 to 17 and 22 of /proc/PID/stat, counted after the name, which may hold spaces and brackets: CPU time in
# the process and in the kernel, both again for children that have ended, and the start time.
_CPU_AFTER_NAME: Final = slice(11, 15)
_BIRTH_AFTER_NAME: Final = 19
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_COUNTED: Final = ("RssAnon:", "RssShmem:")
_COUNTED_EXACTLY: Final = ("Pss_Anon:", "Pss_Shmem:")


def birth(pid: int) -> str:
    """Return the start time of a process, which tells it from a later one of the same number; empty: it is gone."""
    if sys.platform != "linux":
        return _birth_by_ps(pid)
    with suppress(OSError, IndexError):
        return _stat(pid)[_BIRTH_AFTER_NAME]
    return ""


def _stat(pid: int) -> list[str]:
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _birth_by_ps(pid: int) -> str:
    answer = subprocess.run(["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, check=False)  # noqa: S603 - fixed words and a number
    return answer.stdout.decode(errors="replace").strip()


def tree(pid: int) -> Iterator[int]:
    """Yield a process and its descendants; those of other users may be missing."""
    yield pid
    with suppress(OSError):
        for thread in (_PROC / str(pid) / "task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from tree(int(child))


def started(birth: str) -> float:
    """Return the start time of a process on Linux in seconds since boot, by the clock CLOCK_BOOTTIME."""
    return int(birth) / _TICKS


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of all its children that have ended; 0: it is gone."""
    with suppress(OSError, ValueError):
        return sum(map(int, _stat(pid)[_CPU_AFTER_NAME])) / _TICKS
    return 0.0


def machine_cpu_seconds() -> float:
    """Return the CPU time of the whole machine since boot, of all CPUs together."""
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts = _machine_ticks()[:7]
    return (user + nice + system + interrupts + soft_interrupts) / _TICKS


def _machine_ticks() -> list[int]:
    with (_PROC / "stat").open() as lines:
        return [int(word) for word in next(lines).split()[1:]]


def memory(pid: int) -> int:
    """Return the anonymous and shared memory of a process in bytes; 0: it is gone. Mapped files do not count.

    Shared memory counts in full for each process, so the sum over a tree may be too high, and is never too low.
    """
    return _counted(_PROC / str(pid) / "status", _COUNTED)


def exact_memory(pid: int) -> int:
    """Return the same with only its share of shared memory. That takes the kernel a hundred times as long."""
    return _counted(_PROC / str(pid) / "smaps_rollup", _COUNTED_EXACTLY)


def _counted(file: Path, names: tuple[str, ...]) -> int:
    with suppress(OSError):
        lines = file.read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))
    return 0


def variable(pid: int, name: str) -> str:
    """Return the value that a variable had when a process was started; empty: it had none, or cannot be read."""
    prefix = f"{name}=".encode()
    with suppress(OSError):
        words = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
        return next((word[len(prefix) :].decode(errors="replace") for word in words if word.startswith(prefix)), "")
    return ""


def pids_with(variable: str) -> Iterator[int]:
    """Yield the processes of this user that were started with a variable, given as `NAME=value`."""
    wanted = variable.encode()
    for folder in _PROC.iterdir() if _PROC.is_dir() else ():
        if folder.name.isdigit():
            # Processes of other users cannot be read, and any process may end between the listing and the read.
            with suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


def prefer_oom_kill(pid: int) -> None:
    """Make the kernel's OOM killer choose this process before others, above all before the control plane."""
    with suppress(OSError):
        (_PROC / str(pid) / "oom_score_adj").write_text("500")
