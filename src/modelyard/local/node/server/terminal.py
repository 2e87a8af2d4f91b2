"""A terminal for a command that wants one, such as a shell."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import sys
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_PIECE: Final = 32_768
_FULL_SECONDS: Final = 0.01
# Without this, Ctrl-C would reach nobody: a terminal belongs to the session that takes it.
_TAKE: Final = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    print(f"{sys.argv[1]} cannot be started: {error.strerror}")
    sys.exit(127)
"""


class Terminal:
    """Both ends of a terminal: the command has one of them, and we the other."""

    def __init__(self) -> None:
        self._our_end, self.child_end = os.openpty()
        os.set_blocking(self._our_end, False)
        self._open = [self._our_end, self.child_end]

    def command(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command that takes the terminal and becomes the command of these words."""
        return (sys.executable, "-P", "-c", _TAKE, *words)

    def close_child_end(self) -> None:
        """Let the terminal end when the command does."""
        os.close(self.child_end)
        self._open.remove(self.child_end)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield what is shown, until nobody has the other end any more."""
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._our_end, readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                try:
                    piece = os.read(self._our_end, _PIECE)
                except BlockingIOError:
                    continue
                except OSError:
                    # A terminal whose other end is closed is an error to read, not an end.
                    return
                yield piece
        finally:
            loop.remove_reader(self._our_end)

    async def write(self, data: bytes) -> None:
        """Type something."""
        while data:
            try:
                data = data[os.write(self._our_end, data) :]
            except BlockingIOError:
                await asyncio.sleep(_FULL_SECONDS)
            except OSError:
                return  # nobody reads any more

    def resize(self, lines: int, columns: int) -> None:
        """Tell the command how large the window is."""
        with suppress(OSError, struct.error):
            fcntl.ioctl(self._our_end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def close(self) -> None:
        """Let go of it."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()
