"""The process that reaps for a node that was killed; in a cluster the shim of the container runtime does this.

`node` and the host daemon run inside `exclusive_state`. The reaper process holds the reading end of a pipe and the
lock of the state folder. However the node ends, `kill -9` included, the kernel closes the writing end: the reaper
process kills all processes of the node, and ends. Only then is the lock free, so no node starts beside processes of the
last one. If the reaper process is killed as well, the lock is free at once, and the next node reaps before it starts.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modelyard.core.errors import ModelyardError
from modelyard.local.files import private_folder, try_lock
from modelyard.local.node.process.reaper import reap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_POLL_SECONDS: Final = 0.05
_RESTART_SECONDS: Final = 1.0


class StateInUse(ModelyardError):
    """Another node, or another host daemon, works in this state folder."""


@asynccontextmanager
async def exclusive_state(state: Path, patience: float) -> AsyncIterator[None]:
    """Hold the lock of a state folder while the block lasts, with no process of an earlier node left.

    `StateInUse` when another node still holds it after `patience` seconds.
    """
    lock = await _lock(private_folder(state) / "node.lock", patience)
    try:
        # For a node whose reaper process was killed too. In a thread: it blocks.
        await asyncio.to_thread(reap, state)
        async with _reaper(state, lock):
            yield
    finally:
        os.close(lock)


async def _lock(file: Path, patience: float) -> int:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    give_up = time.monotonic() + patience
    try:
        while not try_lock(descriptor):
            if time.monotonic() > give_up:
                raise StateInUse(f"{file.parent} is used by another process; stop it, or use another folder")
            await asyncio.sleep(_POLL_SECONDS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@asynccontextmanager
async def _reaper(state: Path, lock: int) -> AsyncIterator[None]:
    reaper = _ReaperProcess(state, lock)
    await reaper.start()
    respawning = asyncio.create_task(reaper.respawn())
    try:
        yield
    finally:
        # First: it would take the end of the process for a crash, and start another.
        respawning.cancel()
        await asyncio.wait([respawning])
        await reaper.finish()


class _ReaperProcess:
    """The reaper process, replaced when it dies."""

    def __init__(self, state: Path, lock: int) -> None:
        self._argv = (sys.executable, "-P", "-m", __name__, str(state))
        self._lock = lock
        self._theirs, self._ours = os.pipe()
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=self._theirs,
            stdout=asyncio.subprocess.DEVNULL,
            # A lock lasts until every process that has the descriptor has closed it.
            pass_fds=(self._lock,),
            # In a session of its own: Ctrl-C and a kill of our process group must not reach it.
            start_new_session=True,
        )

    async def respawn(self) -> None:
        while self._process is not None:
            await self._process.wait()
            await asyncio.sleep(_RESTART_SECONDS)
            # While descriptors or memory have run out, the next try is in a second.
            with suppress(OSError):
                await self.start()

    async def finish(self) -> None:
        """Let the process reap, and wait for its end."""
        # The end of the pipe is the signal. Our copy of the reading end was for the next process.
        os.close(self._ours)
        os.close(self._theirs)
        if self._process is not None:
            await self._process.wait()


def main() -> None:
    """Wait until the node has ended, then kill what it has left: the main function of the reaper process."""
    with suppress(KeyboardInterrupt):
        while os.read(sys.stdin.fileno(), 1):
            pass
    reap(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
