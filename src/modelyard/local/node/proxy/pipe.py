"""Two TCP connections joined into one, so that neither side can tell it from a direct connection.

`forwarder` joins the connection of a caller to that of a target. Data is written as it comes, and a slow reader slows
the writer down. A half-close, a close and a reset are each passed on as what they are.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable

# SO_LINGER with a timeout of 0: the close sends a reset, so the peer gets an error instead of an end of file.
_AT_ONCE: Final = struct.pack("ii", 1, 0)


class PipeEnd(asyncio.Protocol):
    """One of the two connections. Until it is joined to the other it reads as little as possible."""

    transport: asyncio.Transport

    def __init__(self, lost: Callable[[PipeEnd], None]) -> None:
        self._lost = lost
        self._buffered: list[bytes] = []
        self._other: PipeEnd | None = None
        self._has_eof = False
        self._awaits_answer = False
        # A connection that is being opened counts as awaited: its caller is about to ask.
        self._last_spoke = time.monotonic()

    def is_awaited(self, quiet: float) -> bool:
        """Whether an answer of this end is to come: it was sent data last, or has sent some within `quiet` seconds."""
        return self._awaits_answer or time.monotonic() - self._last_spoke < quiet

    def join(self, other: PipeEnd) -> None:
        """Forward between the two connections from now on, beginning with what they have received so far."""
        # A connection that was lost while the other one was opened had no other end to tell.
        if self.transport.is_closing() or other.transport.is_closing():
            self.abort()
            other.abort()
            return
        self._attach(other)
        other._attach(self)
        self._resume(other)
        other._resume(self)

    def abort(self) -> None:
        """Reset the connection, so that the peer does not take what it has received for the whole."""
        if not self.transport.is_closing():
            with suppress(OSError):  # the peer may have closed it already
                self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the open connection, and read nothing before it is joined."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Forward data to the other end."""
        if self._other is not None:
            self._awaits_answer, self._last_spoke = False, time.monotonic()
            self._other.write(data)
            return
        # uvloop begins to read after `connection_made`, although reading was paused there.
        self._buffered.append(data)
        self.transport.pause_reading()

    def write(self, data: bytes) -> None:
        """Send data of the other end to this one's peer, from which an answer is awaited now."""
        self._awaits_answer = True
        self.transport.write(data)

    def eof_received(self) -> bool:
        """Forward the half-close of this end. Data of the other one goes on."""
        self._has_eof = True
        if self._other is not None:
            self._finish(self._other)
        return True

    def pause_writing(self) -> None:
        """Stop reading from the other end while the peer of this one is slow."""
        if self._other is not None:
            self._other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read from the other end again."""
        if self._other is not None:
            self._other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Close the other end, or reset it if this one was reset."""
        self._lost(self)
        if self._other is None:
            return
        if error is not None:
            self._other.abort()
        else:
            self._other.transport.close()

    def _attach(self, other: PipeEnd) -> None:
        self._other = other
        if self._buffered:
            other.write(b"".join(self._buffered))
        self._buffered.clear()

    def _resume(self, other: PipeEnd) -> None:
        if self._has_eof:
            self._finish(other)
        else:
            self.transport.resume_reading()

    def _finish(self, other: PipeEnd) -> None:
        if other._has_eof:
            self.transport.close()
            other.transport.close()
        else:
            other.transport.write_eof()
