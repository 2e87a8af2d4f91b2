"""A pseudo-terminal for a command of `kubectl exec -t`, such as a shell. `exec_session` uses it."""

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
# A session has to take its controlling terminal itself; without one, Ctrl-C sends no signal to the command.
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
    """A pseudo-terminal: `child_end` is for the command, the other end for us."""

    def __init__(self) -> None:
        self._our_end, self.child_end = os.openpty()
        os.set_blocking(self._our_end, False)
        self._open = [self._our_end, self.child_end]

    def command(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command line that takes the terminal as its controlling one, and then runs these words."""
        return (sys.executable, "-P", "-c", _TAKE, *words)

    def close_child_end(self) -> None:
        """Close our copy of the command's end: while it is open, reading would not end with the command."""
        os.close(self.child_end)
        self._open.remove(self.child_end)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the output of the command, until every process with the other end has ended."""
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
                    # Linux reports a closed other end as EIO, not as an end of file.
                    return
                yield piece
        finally:
            loop.remove_reader(self._our_end)

    async def write(self, data: bytes) -> None:
        """Send input to the command, and wait while its buffer is full. Input for one that has ended is dropped."""
        while data:
            try:
                data = data[os.write(self._our_end, data) :]
            except BlockingIOError:
                await asyncio.sleep(_FULL_SECONDS)
            except OSError:
                return

    def resize(self, lines: int, columns: int) -> None:
        """Set the size of the window; a size that is no number of lines and columns is ignored."""
        with suppress(OSError, struct.error):
            fcntl.ioctl(self._our_end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def close(self) -> None:
        """Close the ends that are still open."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()
