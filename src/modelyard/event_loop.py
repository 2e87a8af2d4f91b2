"""The event loop of our long-running programs: uvloop, mended where it closes a descriptor twice.

`modelyard run`, `up`, `host` and `page` run on it. aiohttp connects a socket itself and hands it to the loop. If the
peer resets the connection at that moment, uvloop 0.23 closes the descriptor, and the socket object closes its number
once more when it is collected. By then the number may be that of another connection: requests go to the wrong server,
or libuv ends the process without a word. So uvloop gets a descriptor that no other object closes.
"""

from __future__ import annotations

import faulthandler
import os
from typing import TYPE_CHECKING, Any, TypeVar

import uvloop

if TYPE_CHECKING:
    import socket
    from collections.abc import Coroutine

_T = TypeVar("_T")


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end on a loop of its own, as `asyncio.run`, and return its result."""
    # libuv and other code in C end a process without a word; so at least the stack is on standard error.
    if not faulthandler.is_enabled():
        faulthandler.enable()
    return uvloop.run(main, loop_factory=Loop)


class Loop(uvloop.Loop):
    """A uvloop that is the only owner of the sockets that it is given."""

    async def create_connection(self, *args: Any, sock: socket.socket | None = None, **options: Any) -> Any:
        """Open a connection, or take over a connected socket: the socket object has no descriptor afterwards."""
        # Its types know no socket but Python's own.
        connect: Any = super().create_connection
        if sock is None:
            return await connect(*args, **options)
        taken = _Descriptor(sock)
        try:
            return await connect(*args, sock=taken, **options)
        except BaseException:
            taken.close_unless_opened()
            raise


class _Descriptor:
    """A connected socket, with as much of its interface as uvloop uses."""

    def __init__(self, sock: socket.socket) -> None:
        self.type, self.family = sock.type, sock.family
        self._number = sock.detach()
        self._is_opened = False

    def setblocking(self, flag: bool) -> None:
        os.set_blocking(self._number, flag)

    def fileno(self) -> int:
        """Return the descriptor, which libuv closes from now on."""
        self._is_opened = True
        return self._number

    def detach(self) -> None:
        """Do nothing: uvloop says that libuv has closed the descriptor."""

    def close(self) -> None:
        """Do nothing: uvloop says that libuv is about to close the descriptor."""

    def close_unless_opened(self) -> None:
        """Close the descriptor of a connection that uvloop has refused before it opened it."""
        if not self._is_opened:
            os.close(self._number)
