"""The command lines of podman and docker, which run the images that no rule names.

`launch` calls it. The ports of the container are published at the loopback address of the pod, so nothing listens
beyond this machine. The container has a network of its own: unlike a process, it cannot reach Services.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.local.node.process.path_mapping import Mapped
from modelyard.local.node.proxy.addresses import PodAddress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.local.node.podspec import Container

PROGRAMS: Final = ("podman", "docker")
_ANSWER_SECONDS: Final = 10.0


class PodmanOptions(Struct, frozen=True):
    """The options of a container that podman or docker runs."""

    name: str
    """Its name in podman or docker, the same at every start: that of an earlier run is removed by it."""
    address: PodAddress
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    mounts: tuple[Mapped, ...] = ()
    gpus: tuple[str, ...] = ()
    memory: int | None = None


class Podman:
    """The first of podman and docker that works, looked for when a container first needs it."""

    def __init__(self) -> None:
        self._found: str | None = None

    async def program(self) -> str | None:
        """Return the path of podman or docker; None: neither works. A client without its service does not count."""
        for name in PROGRAMS:
            file = None if self._found else shutil.which(name)
            if file is not None and await _works(file):
                self._found = file
        return self._found

    def remedy(self) -> str:
        """Return what to do when neither works: start the service of the one that is there, or install one."""
        there = [name for name in PROGRAMS if shutil.which(name)]
        if not there:
            return "install podman or docker"
        return f"{there[0]} is there, but `{there[0]} info` fails: start its service"


async def _works(file: str) -> bool:
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(file, "info", stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await process.wait() == 0
    except TimeoutError:
        process.kill()
        await process.wait()
        return False


def run_command(program: str, container: Container, options: PodmanOptions, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command line that runs a container. Values of variables stay out of it: other users can read it."""
    ports = [port.container_port for port in container.ports if port.protocol == "TCP"]
    host = options.address.ip
    return (
        program,
        "run",
        "--rm",
        f"--name={options.name}",
        *(f"--env={name}" for name in env),
        *(f"--volume={each.outside}:{each.inside}" for each in options.mounts),
        *(f"--publish={host}:{options.address.port or port}:{port}" for port in ports),
        *((f"--memory={options.memory}",) if options.memory else ()),
        *((f"--gpus=device={','.join(options.gpus)}",) if options.gpus else ()),
        *((f"--workdir={container.working_dir}",) if container.working_dir else ()),
        *((f"--entrypoint={options.command[0]}",) if options.command else ()),
        container.image,
        *options.command[1:],
        *options.args,
    )


def enter_command(program: str, name: str, terminal: bool) -> tuple[str, ...]:
    """Return the words to put before a command, so that it runs in the container of this name."""
    return (program, "exec", "--interactive", *(("--tty",) if terminal else ()), name)


def remove_command(program: str, name: str) -> tuple[str, ...]:
    """Return the command line that removes the container of this name; it succeeds when there is none."""
    return (program, "rm", "--force", name)
