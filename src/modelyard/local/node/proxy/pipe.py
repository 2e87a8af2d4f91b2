"""Two connections joined into one: what one end hears, the other says.

Nothing is kept back: data is written as it comes, and a slow reader slows the writer down. An end of speech, a close
and a break are each passed on as what they are, so that neither side can tell the pipe from a direct connection.
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

# Given to a socket, it makes the close a break: the peer gets an error instead of an end.
_AT_ONCE: Final = struct.pack("ii", 1, 0)


class PipeEnd(asyncio.Protocol):
    """One end of a pipe. Until it is joined to the other it listens as little as it can."""

    transport: asyncio.Transport

    def __init__(self, lost: Callable[[PipeEnd], None]) -> None:
        self._lost = lost
        self._buffered: list[bytes] = []
        self._other: PipeEnd | None = None
        self._has_eof = False
        self._awaits_answer = False
        # An end that is being connected is as good as asked.
        self._last_spoke = time.monotonic()

    def is_awaited(self, quiet: float) -> bool:
        """Whether an answer of this end is still to come: it was told something since, or fell silent only now."""
        return self._awaits_answer or time.monotonic() - self._last_spoke < quiet

    def join(self, other: PipeEnd) -> None:
        """Pass on what both ends hear from now on, and what they have heard so far."""
        # An end that was lost meanwhile could not tell the other.
        if self.transport.is_closing() or other.transport.is_closing():
            self.abort()
            other.abort()
            return
        self._attach(other)
        other._attach(self)
        self._resume(other)
        other._resume(self)

    def abort(self) -> None:
        """Break the connection, so that nobody takes what was sent so far for everything."""
        if not self.transport.is_closing():
            with suppress(OSError):  # the peer may have been quicker
                self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the other end."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Pass on what came."""
        if self._other is not None:
            self._awaits_answer, self._last_spoke = False, time.monotonic()
            self._other.write(data)
            return
        # uvloop begins to read after `connection_made`, whatever was said there.
        self._buffered.append(data)
        self.transport.pause_reading()

    def write(self, data: bytes) -> None:
        """Be told what the other end has said."""
        self._awaits_answer = True
        self.transport.write(data)

    def eof_received(self) -> bool:
        """Pass on that this side will say no more. The other one may go on."""
        self._has_eof = True
        if self._other is not None:
            self._finish(self._other)
        return True

    def pause_writing(self) -> None:
        """Hear no more of the other than this side can take."""
        if self._other is not None:
            self._other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on after a pause."""
        if self._other is not None:
            self._other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Close the other end in the way in which this one was closed."""
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
