"""Child processes that cannot outlive us.

Each child inherits the reading end of a pipe of which we hold the writing end. The kernel closes ours however we end,
kill -9 included, and the child exits when it sees that. Nothing here restarts a child.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from modelyard.core.errors import ModelyardError
from modelyard.local.files import tail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIFELINE = "MODELYARD_LIFELINE_FD"


class ProcessDied(ModelyardError):
    """A program that should run has ended; the message holds the end of its log."""

    def __init__(self, name: str, code: int | None, log: Path) -> None:
        super().__init__(f"{name} ended with code {code}; the last lines of {log}:\n{tail(log)}")
        self.name, self.code, self.log = name, code, log


class CannotStart(ModelyardError):
    """A program is missing or may not be run."""


class Program:
    """One program with its arguments, started and stopped any number of times.

    It has `grace` seconds to end when it is asked to. `env` is added to our own environment.
    """

    def __init__(
        self,
        argv: Sequence[str | Path],
        log: Path,
        grace: float = 10.0,
        *,
        name: str = "",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._argv = [str(word) for word in argv]
        self._env = env or {}
        self._grace = grace
        self._process: asyncio.subprocess.Process | None = None
        self._lifeline: int | None = None
        self.name = name or Path(self._argv[0]).name
        self.log = log

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Start it. Its output is added to the log."""
        theirs, self._lifeline = os.pipe()
        try:
            self._process = await self._spawn(theirs)
        except BaseException as error:
            self._drop_lifeline()
            if isinstance(error, OSError):
                raise CannotStart(f"{self.name} cannot be started: {error}; build the control plane again") from error
            raise
        finally:
            os.close(theirs)

    async def _spawn(self, lifeline: int) -> asyncio.subprocess.Process:
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._env, LIFELINE: str(lifeline)},
                pass_fds=(lifeline,),
                # Ctrl-C on the terminal is for us: we stop our children in the right order.
                start_new_session=True,
            )

    async def ended(self) -> None:
        """Wait until it has ended by itself, or was never started."""
        if self._process is not None:
            await self._process.wait()

    def check(self) -> None:
        """Raise `ProcessDied` when it does not run any more."""
        if self._process is not None and self._process.returncode is not None:
            raise ProcessDied(self.name, self._process.returncode, self.log)

    async def stop(self) -> None:
        """Ask it to end, and end it when it takes too long. Stopping twice is fine."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End it as a crash would, without giving it a chance to clean up."""
        await self._end(signal.SIGKILL)

    async def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            await _signal_and_wait(process, how, self._grace)
        finally:
            self._drop_lifeline()

    def _drop_lifeline(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


async def _signal_and_wait(process: asyncio.subprocess.Process, how: signal.Signals, grace: float) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(how)
    try:
        async with asyncio.timeout(grace):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
