"""The frames of SPDY/3.1, as far as `kubectl port-forward` sends them. Pure: bytes in, frames out, and back.

`port_forward` uses it. kubectl multiplexes connections by SPDY, also inside a WebSocket. Its library, spdystream, knows
no flow control: windows are neither counted nor updated.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core.errors import ModelyardError

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSION: Final = 0x8003
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_FIN: Final = 0x01
_CANCEL: Final = 5
_HEAD: Final = struct.Struct(">II")
_CONTROL_HEAD: Final = struct.Struct(">HHI")
_LENGTH: Final = struct.Struct(">I")
_STREAM_ID: Final = 0x7FFFFFFF
# How much of a control frame comes before its headers: the stream, and in a SYN_STREAM the parent and the priority.
_BEFORE_HEADERS: Final = {_SYN_STREAM: 10, _HEADERS: 4}
_LONGEST_HEADERS: Final = 65_536

# The text that both sides begin their compression with. The protocol fixes every byte of it.
_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_PHRASES: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = (
    b"".join(_LENGTH.pack(len(word)) + word.replace("_", " ").encode() for word in _WORDS.split()) + _PHRASES.encode()
)
"""The preset dictionary of zlib for headers."""


class ProtocolError(ModelyardError):
    """The peer has sent what is no SPDY/3.1. The connection cannot go on: its compression is out of step."""


class SynStream(Struct, frozen=True):
    """The peer opens a stream."""

    stream: int
    headers: dict[str, str]
    """By their names in lower case."""


class Data(Struct, frozen=True):
    """A piece of a stream; `fin`: the peer sends no more on it."""

    stream: int
    data: bytes
    fin: bool = False


class RstStream(Struct, frozen=True):
    """The peer has ended a stream in both directions."""

    stream: int


class Ping(Struct, frozen=True):
    """The peer wants the same frame back."""

    id: int


class GoAway(Struct, frozen=True):
    """The peer closes the connection."""


Frame = SynStream | Data | RstStream | Ping | GoAway


class FrameReader:
    """Reads frames out of the bytes of one connection, in pieces of any length."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._headers = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are whole now. Those that say nothing to a port forwarder are left out."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._buffer)
            flags, end = second >> 24, _HEAD.size + (second & 0xFFFFFF)
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            if first <= _STREAM_ID:
                yield Data(first, body, bool(flags & _FIN))
            elif frame := self._control(first, body):
                yield frame

    def _control(self, first: int, body: bytes) -> Frame | None:
        version, kind = first >> 16, first & 0xFFFF
        if version != _VERSION:
            raise ProtocolError(f"version {version & 0x7FFF} of SPDY is not spoken here")
        if kind == _GOAWAY:
            return GoAway()
        if kind not in {_SYN_STREAM, _HEADERS, _RST_STREAM, _PING}:
            return None
        if len(body) < _LENGTH.size:
            raise ProtocolError("a control frame is too short")
        number = _LENGTH.unpack_from(body)[0]
        if kind == _RST_STREAM:
            return RstStream(number & _STREAM_ID)
        if kind == _PING:
            return Ping(number)
        # Also those of HEADERS, which say nothing here: all headers of a connection are one compressed text.
        headers = self._decompress(body[_BEFORE_HEADERS[kind] :])
        return SynStream(number & _STREAM_ID, headers) if kind == _SYN_STREAM else None

    def _decompress(self, compressed: bytes) -> dict[str, str]:
        try:
            text = self._headers.decompress(compressed, _LONGEST_HEADERS)
        except zlib.error as error:
            raise ProtocolError(f"headers cannot be decompressed: {error}") from error
        if self._headers.unconsumed_tail:
            raise ProtocolError("headers are too long")
        return _headers(text)


def _headers(text: bytes) -> dict[str, str]:
    words = list(_strings(text[_LENGTH.size :]))
    if len(text) < _LENGTH.size or len(words) != 2 * _LENGTH.unpack_from(text)[0]:
        raise ProtocolError("headers are not as many as they say")
    return dict(zip(words[::2], words[1::2], strict=True))


def _strings(text: bytes) -> Iterator[str]:
    start = 0
    while start + _LENGTH.size <= len(text):
        begin = start + _LENGTH.size
        start = begin + _LENGTH.unpack_from(text, start)[0]
        if start > len(text):
            raise ProtocolError("a header is longer than its frame")
        yield text[begin:start].decode("latin-1")


class FrameWriter:
    """Makes the frames that are sent on one connection."""

    def __init__(self) -> None:
        self._headers = zlib.compressobj(zdict=DICTIONARY)

    def syn_reply(self, stream: int) -> bytes:
        """Return the frame that accepts a stream, without headers. To be sent in the order in which they are made."""
        none = self._headers.compress(_LENGTH.pack(0)) + self._headers.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, _LENGTH.pack(stream) + none)


def data(stream: int, piece: bytes = b"", *, fin: bool = False) -> bytes:
    """Return the frame with a piece of a stream, of less than 16 MiB; `fin`: the last one."""
    return _HEAD.pack(stream, (_FIN if fin else 0) << 24 | len(piece)) + piece


def rst_stream(stream: int) -> bytes:
    """Return the frame that ends a stream in both directions."""
    return _control(_RST_STREAM, _HEAD.pack(stream, _CANCEL))


def ping(number: int) -> bytes:
    """Return the frame that answers a Ping of this number."""
    return _control(_PING, _LENGTH.pack(number))


def _control(kind: int, body: bytes) -> bytes:
    return _CONTROL_HEAD.pack(_VERSION, kind, len(body)) + body
