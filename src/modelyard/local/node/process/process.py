"""One container as a process: started in its own process group, its output in a file, killed with all its children.

`container_worker` uses it as the kubelet uses the container runtime. The memory limit is enforced on Linux: a process
tree that holds more is killed, as by the kernel. Mapped files, such as weights, do not count.
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
    """The command line, variables and limits of a container that is to be started."""

    argv: tuple[str, ...]
    env: dict[str, str]
    folder: str
    memory: int | None = None
    """The memory limit in bytes; None: no limit."""
    remove: tuple[str, ...] = ()
    """The command that removes the container of podman or docker behind the process; empty: there is none."""
    mark: str = ""
    """The `NAME=value` that finds children of the process, even in other process groups; empty: none is marked."""


class Process:
    """The running process of a container."""

    def __init__(self, process: asyncio.subprocess.Process, launch: Launch) -> None:
        self._process, self._launch = process, launch
        self.pid = process.pid
        self.birth = procfs.birth(process.pid)
        self.out_of_memory = False

    @classmethod
    async def start(cls, launch: Launch, log: Path) -> Process:
        """Start the process of a container; OSError when that fails."""
        # A container of podman that outlived its node holds the name that this one needs.
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
        """Wait for the end of the process, kill all that it has started, and return its exit code."""
        code = exit_code(await self._process.wait())
        kill_group(self.pid)
        if self._launch.mark:
            await asyncio.to_thread(kill_marked, self._launch.mark)
        await _remove(self._launch.remove)
        return code

    async def end(self, grace: float) -> None:
        """Send SIGTERM, wait up to `grace` seconds, then kill the process group."""
        # To the process alone, as in a container: a server ends its workers itself, when their requests are done.
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._process.wait()
        kill_group(self.pid)

    def kill(self) -> None:
        """Kill the process group at once."""
        kill_group(self.pid)

    async def watch_memory(self) -> None:
        """Kill the process group when its tree holds more memory than its limit; return at once without a limit."""
        limit = self._launch.memory
        while limit is not None:
            await asyncio.sleep(_MEMORY_EVERY)
            # The cheap sum first. It is never too low, so the exact one, a hundred times as dear, is rarely needed.
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
