"""One container as a process: started in a group of its own, its output in a file, ended for sure.

Its memory is watched where the system allows it (Linux): a process that holds more than its limit, with all that it has
started, is killed as the kernel would. Files that it has mapped, such as weights, do not count.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.local.node.process import procfs
from modelyard.local.node.process.container_state import exit_code
from modelyard.local.node.process.reaper import kill_group, kill_marked

if TYPE_CHECKING:
    from pathlib import Path

_MEMORY_EVERY: Final = 0.5
_REMOVE_SECONDS: Final = 30.0


class Launch(Struct, frozen=True):
    """Everything that is needed to start a container."""

    argv: tuple[str, ...]
    env: dict[str, str]
    folder: str
    memory: int | None = None
    remove: tuple[str, ...] = ()
    """The command that ends what the process cannot take with it."""
    mark: str = ""
    """The variable by which those are known whom the process has started, wherever they have gone."""


class Process:
    """A running container."""

    def __init__(self, process: asyncio.subprocess.Process, launch: Launch) -> None:
        self._process, self._launch = process, launch
        self.pid = process.pid
        self.birth = procfs.birth(process.pid)
        self.out_of_memory = False

    @classmethod
    async def start(cls, launch: Launch, log: Path) -> Process:
        """Start it; OSError when that cannot be done."""
        await _remove(launch.remove)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = await asyncio.create_subprocess_exec(
                *launch.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env=launch.env,
                cwd=launch.folder,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        procfs.prefer_oom_kill(process.pid)
        return cls(process, launch)

    async def wait(self) -> int:
        """Return its exit code when it has ended, and end all that it has started."""
        code = exit_code(await self._process.wait())
        kill_group(self.pid)
        if self._launch.mark:
            await asyncio.to_thread(kill_marked, self._launch.mark)
        await _remove(self._launch.remove)
        return code

    async def end(self, grace: float) -> None:
        """Ask it to end; kill it, and what it has started, when it takes too long."""
        # Only the process itself, as in a container: a server asks its workers when their requests are done.
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._process.wait()
        kill_group(self.pid)

    def kill(self) -> None:
        """End it at once."""
        kill_group(self.pid)

    async def watch_memory(self) -> None:
        """Kill it when it holds more memory than it may."""
        limit = self._launch.memory
        while limit is not None:
            await asyncio.sleep(_MEMORY_EVERY)
            # The cheap sum first: it is too high rather than too low.
            if all(sum(map(held, procfs.tree(self.pid))) > limit for held in (procfs.memory, procfs.exact_memory)):
                self.out_of_memory = True
                self.kill()
                return


async def _remove(command: tuple[str, ...]) -> None:
    if not command:
        return
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdin=quiet, stdout=quiet, stderr=quiet)
    with suppress(TimeoutError):
        async with asyncio.timeout(_REMOVE_SECONDS):
            await process.wait()
