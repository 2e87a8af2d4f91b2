"""The page of one machine: its port listens from the start, and its process is started by the first visitor.

`machine` runs it. So it costs neither time nor memory until it is looked at, as a socket unit of systemd. The process
is an ordinary `modelyard page` that gets the socket and the one-time token from us.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from modelyard.core.names import PAGE_TOKEN
from modelyard.local.ports import keep_ports
from modelyard.local.program import Program
from modelyard.local.retry import Backoff
from modelyard.local.up.supervise import retry_start

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_HOST: Final = "127.0.0.1"
_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0


class Page:
    """The page of one machine, and the address that lets one browser in."""

    def __init__(self, state: Path, kubeconfig: Path) -> None:
        self._log, self._kubeconfig = state / "logs" / "page.log", kubeconfig
        port = keep_ports(state / "page-port.json", ("page",))["page"]
        self._listener = socket.create_server((_HOST, port))
        self._port, self._token = port, secrets.token_urlsafe(32)

    @property
    def url(self) -> str:
        """The address with the one-time token."""
        return f"http://{_HOST}:{self._port}/?token={self._token}"

    async def run(self, say: Callable[[str], None]) -> NoReturn:
        """Start the process whenever a browser comes and none runs, until cancelled.

        A process that has ended has forgotten its sessions, so `say` gets an address with another token then.
        """
        try:
            while True:
                await self._visited()
                await self._serve(say)
                self._token = secrets.token_urlsafe(32)
                say(f"the page ended by itself, {self._log} may say why; it is back at {self.url}")
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._listener.close()

    async def _serve(self, say: Callable[[str], None]) -> None:
        """Run the process to its end."""
        descriptor = self._listener.fileno()
        # By a flag: commands that the page shows for a shell name it as well.
        options = (f"--listen-fd={descriptor}", f"--kubeconfig={self._kubeconfig}")
        words = ("modelyard.local.lifeline", "modelyard", "page", *options)
        env = {PAGE_TOKEN: self._token}
        program = Program(
            [sys.executable, "-P", "-m", *words], log=self._log, name="page", env=env, descriptors=(descriptor,)
        )
        # Not once: what the machine serves must not end because the page cannot be shown.
        await retry_start(program, say, Backoff(_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS))
        try:
            await program.ended()
        finally:
            await program.stop()

    async def _visited(self) -> None:
        """Wait for a connection, and leave it to the process."""
        loop, visited = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._listener, visited.set)
        try:
            await visited.wait()
        finally:
            loop.remove_reader(self._listener)
