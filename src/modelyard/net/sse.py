"""Server-sent events (SSE), decoded as they come, for the streams of `mcp`.

Keeps the data of `message` events and nothing else: no reconnection, no event ids. It never holds more than it was fed,
so the limit of the reply that feeds it bounds its memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


class SseDecoder:
    """Turns chunks of bytes, cut anywhere, into the data of each event."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._event = b""
        self._after_return = False
        self._at_start = True

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of each event that this chunk completes."""
        if not chunk:
            return
        if self._after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]  # the second half of a line end that the chunks cut in two
        self._after_return = chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        for piece in ended:
            self._line += piece
            yield from self._take(bytes(self._line))
            self._line.clear()
        self._line += rest

    def _take(self, line: bytes) -> Iterator[bytes]:
        if self._at_start:
            line, self._at_start = line.removeprefix(_BOM), False
        if not line:
            yield from self._dispatch()
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._event = value

    def _dispatch(self) -> Iterator[bytes]:
        data, event = b"\n".join(self._data), self._event
        self._data, self._event = [], b""
        if data and event in (b"", b"message"):
            yield data
