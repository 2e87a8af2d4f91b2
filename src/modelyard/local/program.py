"""Child processes that cannot outlive us: the programs of the control plane, and the operator.

Each child inherits the reading end of a pipe, its lifeline, of which we hold the writing end. The kernel closes ours
however we end, `kill -9` included, and the child exits when it reads the end of file. Nothing here restarts a child;
`up.supervise` does.
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
    """A program that should run has ended; the message holds the last lines of its log."""

    def __init__(self, name: str, code: int | None, log: Path) -> None:
        super().__init__(f"{name} ended with code {code}; the last lines of {log}:\n{tail(log)}")
        self.name, self.code, self.log = name, code, log


class CannotStart(ModelyardError):
    """A program is missing or not executable, or the system has no room for another process."""


class Program:
    """One program with its arguments, which can be started and stopped any number of times.

    After SIGTERM it has `grace` seconds to end. `env` is added to our own environment. It inherits `descriptors`, such
    as a socket that listens, under their numbers.
    """

    def __init__(
        self,
        argv: Sequence[str | Path],
        log: Path,
        grace: float = 10.0,
        *,
        name: str = "",
        env: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        self._argv = [str(word) for word in argv]
        self._env = env or {}
        self._descriptors = tuple(descriptors)
        self._grace = grace
        self._process: asyncio.subprocess.Process | None = None
        self._lifeline: int | None = None
        self.name = name or Path(self._argv[0]).name
        self.log = log

    @property
    def pid(self) -> int | None:
        """The process id; None: it does not run."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the program; `CannotStart` when that fails. Its output is appended to its log."""
        try:
            theirs, self._lifeline = os.pipe()
            try:
                self._process = await self._spawn(theirs)
            finally:
                os.close(theirs)
        except BaseException as error:
            self._drop_lifeline()
            if isinstance(error, OSError):
                raise CannotStart(f"{self.name} cannot be started: {error}; {_remedy(error)}") from error
            raise

    async def _spawn(self, lifeline: int) -> asyncio.subprocess.Process:
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._env, LIFELINE: str(lifeline)},
                pass_fds=(lifeline, *self._descriptors),
                # In a session of its own: Ctrl-C reaches only us, and we stop our children in the right order.
                start_new_session=True,
            )

    async def ended(self) -> None:
        """Wait until the program has ended; return at once if it was not started."""
        if self._process is not None:
            await self._process.wait()

    def check(self) -> None:
        """Raise `ProcessDied` when the program was started and has ended by itself."""
        if self._process is not None and self._process.returncode is not None:
            raise ProcessDied(self.name, self._process.returncode, self.log)

    async def stop(self) -> None:
        """Send SIGTERM, kill the program when it takes too long, and return when it has ended. Twice is fine."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """Kill the program as a crash would, and return when it has ended."""
        await self._end(signal.SIGKILL)

    async def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            await _signal_and_wait(process, how, self._grace)
        finally:
            # Last: a program that loses its lifeline first exits at once, without its grace period.
            self._drop_lifeline()

    def _drop_lifeline(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


def _remedy(error: OSError) -> str:
    if isinstance(error, (FileNotFoundError, PermissionError)):
        return "build or install it again"
    return "free what the system is short of"


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
