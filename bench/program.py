"""A Python program of the benchmark as a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from modelyard.local.program import ProcessDied

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

_ROOT = Path(__file__).resolve().parent.parent
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.01


class Program:
    """A module with its arguments, and its output in a log. It can be started and stopped any number of times."""

    def __init__(self, command: list[str], log: Path, env: Mapping[str, str]) -> None:
        self._command, self._log, self._env = command, log, {**os.environ, **env}
        self._process: asyncio.subprocess.Process | None = None
        self._written_before = 0

    @property
    def pid(self) -> int:
        """The process id of what was started last."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as log:
            self._written_before = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", *self._command, cwd=_ROOT, env=self._env, stdout=log, stderr=log
            )

    async def stop(self) -> None:
        """Ask it to end and wait for it; a program that does not end is killed, and that is an error."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._process.wait()
        except BaseException:
            self._process.kill()
            await self._process.wait()
            raise

    def check(self) -> None:
        """Raise when it does not run any more."""
        if self._process is not None and self._process.returncode is not None:
            raise ProcessDied(self._command[0], self._process.returncode, self._log)

    async def said(self, *words: str) -> None:
        """Wait until it has written all these words since its last start."""
        async with asyncio.timeout(_START_SECONDS):
            while not all(word.encode() in self._written() for word in words):
                self.check()
                await asyncio.sleep(_POLL_SECONDS)

    def _written(self) -> bytes:
        return self._log.read_bytes()[self._written_before :]

    @asynccontextmanager
    async def running(self, *words: str) -> AsyncIterator[None]:
        """Run it until the block ends, which begins when it has written these words."""
        await self.start()
        try:
            await self.said(*words)
            yield
        finally:
            await self.stop()
