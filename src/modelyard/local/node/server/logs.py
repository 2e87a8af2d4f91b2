"""Read the log of a container for `kubectl logs`, in pieces, so that no log has to fit into memory.

`kubelet_server` calls it.
"""

from __future__ import annotations

import asyncio
import os
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core.times import micro_timestamp
from modelyard.local.node.server.log_rotation import first_kept_byte

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path
    from typing import BinaryIO

    from modelyard.local.node.server.log_times import LogTimes

_PIECE: Final = 65_536
_LOOK_AGAIN_SECONDS: Final = 0.1
_LINES: Final = re.compile(rb"[^\n]*\n|[^\n]+")


class PodLogOptions(Struct, frozen=True):
    """The part of a log that a client asks for (PodLogOptions); None: no such limit."""

    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: float | None = None


async def read_log(
    log: Path, options: PodLogOptions, times: LogTimes, goes_on: Callable[[], bool] = lambda: False
) -> AsyncIterator[bytes]:
    """Yield the part of a log that the options name. With `follow`, go on while `goes_on` is true or bytes are left."""
    left = float("inf") if options.limit_bytes is None else options.limit_bytes
    with log.open("rb") as stream:
        stream.seek(_start(stream, options, times))
        reader = _Stamped(stream, times) if options.timestamps else _Plain(stream)
        while left > 0:
            # Asked before the read: a process may write its last lines and end between the read and the question.
            more = options.follow and goes_on() and _is_still(log, stream)
            if piece := reader.read():
                yield piece if len(piece) <= left else piece[: int(left)]
                left -= len(piece)
            elif more:
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            else:
                return


class _Plain:
    """A log as the process wrote it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self) -> bytes:
        """Return the next piece; empty: there is no more yet."""
        _skip_trimmed(self._stream)
        return self._stream.read(_PIECE)


class _Stamped(_Plain):
    """A log with a time before each line. Lines are passed on in pieces: one may be longer than memory."""

    def __init__(self, stream: BinaryIO, times: LogTimes) -> None:
        super().__init__(stream)
        self._times = times
        self._is_at_line = True

    def read(self) -> bytes:
        """Return the next piece, with a time before each line that begins in it; empty: there is no more yet."""
        piece = super().read()
        offset, log = self._stream.tell() - len(piece), os.fstat(self._stream.fileno())
        stamped = []
        for line in _LINES.findall(piece):
            if self._is_at_line:
                stamped.append(_text(self._times.written(log, offset + 1)))
            stamped.append(line)
            offset += len(line)
            self._is_at_line = line.endswith(b"\n")
        return b"".join(stamped)


def _skip_trimmed(stream: BinaryIO) -> None:
    """Move on to the first byte that is kept: trimming may have overtaken a slow reader, who would read zeros."""
    begin = first_kept_byte(stream.fileno())
    if stream.tell() < begin:
        stream.seek(_next_line(stream, begin))


def _text(at: float) -> bytes:
    return f"{micro_timestamp(datetime.fromtimestamp(at, UTC))} ".encode()


def _start(stream: BinaryIO, options: PodLogOptions, times: LogTimes) -> int:
    start = _next_line(stream, first_kept_byte(stream.fileno()))
    if options.since is not None:
        start = max(start, _next_line(stream, times.offset(os.fstat(stream.fileno()), options.since)))
    if options.tail_lines is not None:
        start = max(start, _last_lines(stream, options.tail_lines, start))
    return start


def _next_line(stream: BinaryIO, offset: int) -> int:
    if offset == 0:
        return 0
    stream.seek(offset - 1)
    while (read := stream.readline(_PIECE)) and not read.endswith(b"\n"):
        pass
    return stream.tell()


def _last_lines(stream: BinaryIO, count: int, first: int) -> int:
    """Return the offset of the last `count` lines, but not before `first`. An unfinished line counts."""
    end = stream.seek(0, os.SEEK_END)
    if count == 0 or end == 0:
        return end
    # A newline at the very end finishes the last line and begins no other.
    start = end - 1
    while start > first:
        begin = max(first, start - _PIECE)
        stream.seek(begin)
        piece = stream.read(start - begin)
        found = piece.count(b"\n")
        if found >= count:
            return begin + _nth_last(piece, count) + 1
        count, start = count - found, begin
    return first


def _nth_last(piece: bytes, count: int) -> int:
    at = len(piece)
    for _ in range(count):
        at = piece.rindex(b"\n", 0, at)
    return at


def _is_still(log: Path, stream: BinaryIO) -> bool:
    """Whether the open log is still that of the current run: at a restart it is renamed, and a new one begins."""
    try:
        return os.path.samestat(log.stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False
