"""Whether a file is a whole GGUF: by its magic, and by the size that its header implies.

`partial` asks before a file gets its final name, and `manifest` before one that is there is used again. `net/gguf.py`
reads from a stream what a header tells users; only where the last tensor ends matters here. What a newer version of the
format may bring is not refused: the engine knows best.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, BinaryIO, Final

from modelyard.core.errors import ModelyardError

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX: Final = ".gguf"

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_ALIGNMENT_KEY: Final = b"general.alignment"
_ALIGNMENT: Final = 32
_UINT32: Final = 4
_STRING: Final = 8
_ARRAY: Final = 9
_MOST_DIMENSIONS: Final = 8
_LONGEST_HEADER: Final = 256 * 1024 * 1024
# Bytes of a value, by its type.
_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
# Of a tensor, by its type: how many elements are a block, and the bytes of a block.
_BLOCKS: Final = {
    0: (1, 4),
    1: (1, 2),
    24: (1, 1),
    25: (1, 2),
    26: (1, 4),
    27: (1, 8),
    28: (1, 8),
    30: (1, 2),
    2: (32, 18),
    3: (32, 20),
    6: (32, 22),
    7: (32, 24),
    8: (32, 34),
    20: (32, 18),
    39: (32, 17),
    10: (256, 84),
    11: (256, 110),
    12: (256, 144),
    13: (256, 176),
    14: (256, 210),
    16: (256, 66),
    17: (256, 74),
    18: (256, 98),
    19: (256, 50),
    21: (256, 110),
    22: (256, 82),
    23: (256, 136),
    29: (256, 56),
    34: (256, 54),
    35: (256, 66),
}


class _CutShort(ModelyardError):
    """The file ends within its header."""


class _NotKnown(ModelyardError):
    """The header holds something that this reader does not know, so no size follows from it."""


def fault(path: Path) -> str:
    """Return what is wrong with a file that should be a GGUF, as the end of a sentence; empty: nothing."""
    size = path.stat().st_size
    if not size:
        return "is not a GGUF file: it is empty"
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return "is not a GGUF file: it does not begin with GGUF"
        try:
            implied = _implied_size(_Reader(file, size))
        except _CutShort:
            return f"is not a whole GGUF file: its {size} bytes end within the header"
        except _NotKnown:
            return ""
    if size < implied:
        return f"is not a whole GGUF file: it has {size} bytes, and its header tells of {implied} bytes"
    return ""


class _Reader:
    """Reads numbers and passes over the rest, never beyond the end of the file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self.at = len(_MAGIC)

    def take(self, size: int) -> bytes:
        self._advance(size)
        return self._file.read(size)

    def skip(self, size: int) -> None:
        self._advance(size)
        self._file.seek(size, 1)

    def number(self, layout: str) -> int:
        (number,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return int(number)

    def text(self) -> bytes:
        return self.take(self.number("<Q"))

    def skip_texts(self, count: int) -> None:
        for _ in range(count):
            self.skip(self.number("<Q"))

    def _advance(self, size: int) -> None:
        # Before anything is read: the length of a text may be any number, and must not fill memory.
        if size > self._size - self.at:
            raise _CutShort
        self.at += size
        # Real headers have some megabytes. Only a made up one has more, and would be read for minutes.
        if self.at > _LONGEST_HEADER:
            raise _NotKnown


def _implied_size(reader: _Reader) -> int:
    if reader.number("<I") not in _VERSIONS:
        raise _NotKnown
    tensors, pairs = reader.number("<Q"), reader.number("<Q")
    alignment = _ALIGNMENT
    for _ in range(pairs):
        alignment = _pair(reader) or alignment
    ends = [_end_of_tensor(reader) for _ in range(tensors)]
    # The data begins at the next multiple of the alignment; a file without tensors has none.
    return -(-reader.at // alignment) * alignment + max(ends) if ends else reader.at


def _pair(reader: _Reader) -> int:
    """Pass over one pair of the metadata, and return the alignment if the pair is that; else 0."""
    key, kind = reader.text(), reader.number("<I")
    if key == _ALIGNMENT_KEY and kind == _UINT32:
        return reader.number("<I")
    if kind == _STRING:
        reader.skip_texts(1)
    elif kind == _ARRAY:
        _skip_array(reader)
    else:
        reader.skip(_size(kind))
    return 0


def _skip_array(reader: _Reader) -> None:
    kind, count = reader.number("<I"), reader.number("<Q")
    if kind == _STRING:
        reader.skip_texts(count)
    else:
        reader.skip(_size(kind) * count)


def _size(kind: int) -> int:
    if kind not in _SIZES:
        raise _NotKnown
    return _SIZES[kind]


def _end_of_tensor(reader: _Reader) -> int:
    """Return where a tensor ends within the data; where it begins, if its type is not known."""
    reader.text()
    dimensions = reader.number("<I")
    if dimensions > _MOST_DIMENSIONS:
        raise _NotKnown
    elements = math.prod(reader.number("<Q") for _ in range(dimensions))
    kind, offset = reader.number("<I"), reader.number("<Q")
    block, size = _BLOCKS.get(kind, (1, 0))
    return offset + elements // block * size
