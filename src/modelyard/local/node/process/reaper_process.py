"""A small process that outlives the node for a moment, to end what the node can no longer end.

It holds one end of a pipe and the lock of the state folder. When the node ends, in whatever way, the pipe does too: the
guardian ends all processes of the node and then itself, and with it the lock. So a next node waits until all is clean.
Should the guardian itself be killed, the next node does its work.
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
    """Another node works in this state folder."""


@asynccontextmanager
async def exclusive_state(state: Path, patience: float) -> AsyncIterator[None]:
    """Be the only node of a state folder, for as long as the block lasts; nothing of an earlier one is left."""
    lock = await _lock(private_folder(state) / "node.lock", patience)
    try:
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
                raise StateInUse(f"{file.parent} is used by another node; stop it, or use another folder")
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
        respawning.cancel()
        await asyncio.wait([respawning])
        await reaper.finish()


class _ReaperProcess:
    """The process, and another one when it dies."""

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
            pass_fds=(self._lock,),
            # Whoever stops us by Ctrl-C, or kills our whole group, must not stop it too.
            start_new_session=True,
        )

    async def respawn(self) -> None:
        while self._process is not None:
            await self._process.wait()
            await asyncio.sleep(_RESTART_SECONDS)
            await self.start()

    async def finish(self) -> None:
        """Let it do its work and end."""
        os.close(self._ours)
        os.close(self._theirs)
        if self._process is not None:
            await self._process.wait()


def main() -> None:
    """Wait until the node has ended, then end what it has left."""
    with suppress(KeyboardInterrupt):
        while os.read(sys.stdin.fileno(), 1):
            pass
    reap(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
