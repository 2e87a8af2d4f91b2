"""Frames of SPDY are read and written as the library of kubectl writes and reads them."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.local.node.server import spdy
from modelyard.local.node.server.spdy import Data, FrameReader, FrameWriter, GoAway, Ping, ProtocolError, RstStream

HEADERS = {"streamtype": "data", "port": "8080", "requestid": "1"}


class Peer:
    """Makes the frames of a client."""

    def __init__(self) -> None:
        self._headers = zlib.compressobj(zdict=spdy.DICTIONARY)

    def syn_stream(self, stream: int, headers: dict[str, str]) -> bytes:
        return control(1, struct.pack(">IIH", stream, 0, 0) + self._block(headers))

    def headers(self, stream: int, headers: dict[str, str]) -> bytes:
        return control(8, struct.pack(">I", stream) + self._block(headers))

    def _block(self, headers: dict[str, str]) -> bytes:
        words = [struct.pack(">I", len(word)) + word.encode() for word in chain.from_iterable(headers.items())]
        return self.compressed(struct.pack(">I", len(headers)) + b"".join(words))

    def compressed(self, text: bytes) -> bytes:
        return self._headers.compress(text) + self._headers.flush(zlib.Z_SYNC_FLUSH)


def control(kind: int, body: bytes, version: int = 3) -> bytes:
    return struct.pack(">HHI", 0x8000 | version, kind, len(body)) + body


def test_the_dictionary_is_the_one_of_the_protocol() -> None:
    assert (len(spdy.DICTIONARY), zlib.adler32(spdy.DICTIONARY)) == (1423, 0xE3C6A7C2)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_frames_are_read_in_pieces_of_any_length(size: int) -> None:
    peer = Peer()
    sent = b"".join(
        [
            peer.syn_stream(1, HEADERS),
            control(4, struct.pack(">III", 1, 7, 65_536)),  # SETTINGS
            peer.headers(1, {"more": "words"}),
            spdy.data(1, b"hello"),
            control(9, struct.pack(">II", 1, 100)),  # WINDOW_UPDATE
            peer.syn_stream(3, {**HEADERS, "streamtype": "error"}),
            spdy.ping(5),
            spdy.data(1, fin=True),
            spdy.rst_stream(3),
            control(7, bytes(8)),
        ]
    )
    reader = FrameReader()
    pieces = (sent[start : start + size] for start in range(0, len(sent), size))
    assert [frame for piece in pieces for frame in reader.feed(piece)] == [
        spdy.SynStream(1, HEADERS),
        Data(1, b"hello"),
        spdy.SynStream(3, {**HEADERS, "streamtype": "error"}),
        Ping(5),
        Data(1, b"", fin=True),
        RstStream(3),
        GoAway(),
    ]


def test_replies_have_no_headers_and_are_compressed_as_one_text() -> None:
    writer, headers = FrameWriter(), zlib.decompressobj(zdict=spdy.DICTIONARY)
    for stream in (1, 3, 5):
        frame = writer.syn_reply(stream)
        assert frame[:12] == struct.pack(">HHII", 0x8003, 2, len(frame) - 8, stream)
        assert headers.decompress(frame[12:]) == bytes(4)


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        (control(6, bytes(4), version=2), "version 2"),
        (control(6, b"\0"), "too short"),
        (control(1, bytes(10) + b"nonsense"), "cannot be decompressed"),
        (control(1, bytes(10) + Peer().compressed(b"")), "not as many"),
        (control(1, bytes(10) + Peer().compressed(struct.pack(">I", 2))), "not as many"),
        (control(1, bytes(10) + Peer().compressed(struct.pack(">II", 1, 9) + b"short")), "longer than its frame"),
        (control(1, bytes(10) + Peer().compressed(bytes(1_000_000))), "too long"),
    ],
)
def test_what_is_no_spdy_is_told(sent: bytes, wrong: str) -> None:
    with pytest.raises(ProtocolError, match=wrong):
        list(FrameReader().feed(sent))


@given(st.binary(max_size=60), st.sampled_from([1, 2, 3, 4, 6, 7, 8, 9, 77]))
def test_no_bytes_break_the_reader(body: bytes, kind: int) -> None:
    with suppress(ProtocolError):
        list(FrameReader().feed(control(kind, body) + body))
