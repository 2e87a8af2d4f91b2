"""Restart programs of the control plane, and the operator, when they end by themselves: a static pod's restart policy.

`machine` runs one task per program. A program that cannot be started is tried again for ever, because the others go on
without it: models answer while the control plane is away.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

from modelyard.local.program import CannotStart
from modelyard.local.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from modelyard.local.program import Program

_FIRST: Final = 0.2
_LONGEST: Final = 30.0
_CALM: Final = 60.0
# etcd ends when it cannot write the next piece of its log, which is 64 MB long.
_FULL: Final = 64 * 2**20


def free_bytes(folder: Path) -> int:
    """Return how many bytes can still be written to the disk of a folder."""
    return shutil.disk_usage(folder).free


async def supervise(program: Program, say: Callable[[str], None], free: Callable[[Path], int] = free_bytes) -> NoReturn:
    """Restart a started program whenever it ends, with back-off, until cancelled. `say` gets a line per restart."""
    backoff = Backoff(_FIRST, _LONGEST)
    while True:
        since = time.monotonic()
        await program.ended()
        if time.monotonic() - since > _CALM:
            backoff.reset()
        say(f"{program.name} ended by itself and is started again; {_cause(program.log, free)}")
        await asyncio.sleep(backoff.delay())
        # Closes the lifeline of the process that has ended.
        await program.stop()
        await retry_start(program, say, backoff)


async def retry_start(program: Program, say: Callable[[str], None], backoff: Backoff) -> None:
    """Start a program, and return when it runs. `say` gets each new reason why it cannot be started."""
    told = ""
    while True:
        try:
            await program.start()
        except CannotStart as error:
            if str(error) != told:
                say(f"{error}; it is tried again")
            told = str(error)
            await asyncio.sleep(backoff.delay())
        else:
            return


def _cause(log: Path, free: Callable[[Path], int]) -> str:
    # A program that cannot write does not get as far as to say so in its log, which is on the same disk.
    with suppress(FileNotFoundError):  # the state folder was moved or removed; the next start of the program says so
        if free(log.parent) < _FULL:
            return f"the disk that holds {log.parent} is full: free 1 GB or more"
    return f"{log} may say why"
