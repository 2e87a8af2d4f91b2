"""The header of a GGUF file, parsed from its first bytes as they come, for `source_check`.

Pure, and made for files that nothing vouches for: versions 2 and 3, little endian. Only the few values that the status
shows are kept; everything else, such as the vocabulary, is passed over without being stored. Reading ends with the
metadata: of the tensors, only the number is reported.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from modelyard.core.errors import ModelyardError
from modelyard.core.gguf import GgufReport
from modelyard.core.text import clean
from modelyard.net.gguf_names import license_name, quantization

if TYPE_CHECKING:
    from collections.abc import Generator

LONGEST_STRING: Final = 10 * 1000 * 1000
LONGEST_KEY: Final = 65535
MOST_ELEMENTS: Final = 10 * 1000 * 1000
MOST_PAIRS: Final = 10_000
"""Real files have less than a hundred."""
LARGEST_NUMBER: Final = 2**53 - 1
"""Every reader of JSON agrees on whole numbers up to here."""

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_STRING: Final = 8
_ARRAY: Final = 9
# Bytes of a value, by its type.
_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_UNSIGNED: Final = frozenset({0, 2, 4, 10})
_KEPT_OF_STRING: Final = 1024
# Only made up files have longer keys, or more pairs that look like those that are told: kept, they would fill memory.
_KEPT_OF_KEY: Final = 256
_KEPT_PAIRS: Final = 64
_LENGTH: Final = struct.Struct("<Q")

_ARCHITECTURE: Final = "general.architecture"
_NAME: Final = "general.name"
_LICENSE: Final = "general.license"
_FILE_TYPE: Final = "general.file_type"
_CONTEXT: Final = "context_length"
_EMBEDDING: Final = "embedding_length"
_LAYERS: Final = "block_count"
_HEADS: Final = "attention.head_count"
_WANTED: Final = frozenset({_ARCHITECTURE, _NAME, _LICENSE, _FILE_TYPE})
# The architecture stands before these, and may come after them in the file.
_WANTED_ENDS: Final = tuple(f".{name}" for name in (_CONTEXT, _EMBEDDING, _LAYERS, _HEADS))

_Pairs = dict[str, str | int]


class BadHeader(ModelyardError):
    """The bytes are not the beginning of a GGUF file that can be read."""


class HeaderReader:
    """Reads one header. It keeps only bytes that it cannot use yet, never more than a piece and the start of a text."""

    def __init__(self) -> None:
        self._bytes = _Bytes()
        self._steps = _header(self._bytes)

    def feed(self, piece: bytes) -> GgufReport | None:
        """Take the next bytes; None: more are needed. To be fed no more after a header or `BadHeader`."""
        self._bytes.add(piece)
        try:
            next(self._steps)
        except StopIteration as end:
            header: GgufReport = end.value
            return header
        return None


class _Bytes:
    """Bytes that come in pieces. Its generators yield whenever the next piece is needed."""

    def __init__(self) -> None:
        self._held = b""
        self._at = 0

    def add(self, piece: bytes) -> None:
        self._held = self._held[self._at :] + piece
        self._at = 0

    def take(self, size: int) -> Generator[None, None, bytes]:
        while len(self._held) - self._at < size:
            yield
        self._at += size
        return self._held[self._at - size : self._at]

    def skip(self, size: int) -> Generator[None, None, None]:
        while (here := len(self._held) - self._at) < size:
            size -= here
            self._at = len(self._held)
            yield
        self._at += size

    def number(self, size: int, limit: int, what: str) -> Generator[None, None, int]:
        number = int.from_bytes((yield from self.take(size)), "little")
        if number > limit:
            raise BadHeader(f"{what} is larger than {limit}")
        return number

    def text(self, limit: int, keep: int) -> Generator[None, None, str]:
        size = yield from self.number(_LENGTH.size, limit, "the length of a string")
        kept = yield from self.take(min(size, keep))
        yield from self.skip(size - len(kept))
        # What is cut may end within a character.
        return kept.decode(errors="ignore")

    def skip_texts(self, count: int) -> Generator[None, None, None]:
        while count := self._skip_texts_here(count):
            yield from self.skip((yield from self.number(_LENGTH.size, LONGEST_STRING, "the length of a string")))
            count -= 1

    def _skip_texts_here(self, count: int) -> int:
        """Pass over the strings that are here in full, and return how many are left.

        A vocabulary has hundreds of thousands: a plain loop takes a fifth of the time of generators.
        """
        end = len(self._held)
        while count and end - self._at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._held, self._at)
            after = self._at + _LENGTH.size + size
            if size > LONGEST_STRING or after > end:
                break
            self._at = after
            count -= 1
        return count


def _header(source: _Bytes) -> Generator[None, None, GgufReport]:
    if (yield from source.take(len(_MAGIC))) != _MAGIC:
        raise BadHeader("the file does not begin with GGUF")
    version = int.from_bytes((yield from source.take(4)), "little")
    if version not in _VERSIONS:
        raise BadHeader("the file has another version than 2 or 3, or is big endian")
    tensors = yield from source.number(8, LARGEST_NUMBER, "the number of tensors")
    count = yield from source.number(8, MOST_PAIRS, "the number of metadata keys")
    pairs: _Pairs = {}
    for _ in range(count):
        yield from _pair(source, pairs)
    return _told(version, tensors, pairs)


def _pair(source: _Bytes, pairs: _Pairs) -> Generator[None, None, None]:
    key = yield from source.text(LONGEST_KEY, _KEPT_OF_KEY)
    value = yield from _value(source)
    if value is not None and len(pairs) < _KEPT_PAIRS and (key in _WANTED or key.endswith(_WANTED_ENDS)):
        pairs[key] = value


def _value(source: _Bytes) -> Generator[None, None, str | int | None]:
    """Read one value. Those of types that are never shown come as None."""
    kind = int.from_bytes((yield from source.take(4)), "little")
    if kind == _STRING:
        return (yield from source.text(LONGEST_STRING, _KEPT_OF_STRING))
    if kind == _ARRAY:
        yield from _skip_array(source)
        return None
    raw = yield from source.take(_size(kind))
    number = int.from_bytes(raw, "little")
    return number if kind in _UNSIGNED and number <= LARGEST_NUMBER else None


def _skip_array(source: _Bytes) -> Generator[None, None, None]:
    kind = int.from_bytes((yield from source.take(4)), "little")
    count = yield from source.number(8, MOST_ELEMENTS, "the length of an array")
    if kind == _ARRAY:
        raise BadHeader("an array holds arrays, which llama.cpp does not read either")
    if kind == _STRING:
        yield from source.skip_texts(count)
    else:
        yield from source.skip(_size(kind) * count)


def _size(kind: int) -> int:
    size = _SIZES.get(kind)
    if size is None:
        raise BadHeader("a value has a type that is not known")
    return size


def _told(version: int, tensors: int, pairs: _Pairs) -> GgufReport:
    architecture = _text(pairs, _ARCHITECTURE)
    file_type = pairs.get(_FILE_TYPE)
    return GgufReport(
        file_version=version,
        tensor_count=tensors,
        architecture=clean(architecture),
        model_name=clean(_text(pairs, _NAME)),
        quantization=quantization(file_type) if isinstance(file_type, int) else "",
        context_length=_number(pairs, f"{architecture}.{_CONTEXT}"),
        embedding_size=_number(pairs, f"{architecture}.{_EMBEDDING}"),
        layer_count=_number(pairs, f"{architecture}.{_LAYERS}"),
        head_count=_number(pairs, f"{architecture}.{_HEADS}"),
        license=license_name(_text(pairs, _LICENSE)),
    )


def _text(pairs: _Pairs, key: str) -> str:
    value = pairs.get(key, "")
    return value if isinstance(value, str) else ""


def _number(pairs: _Pairs, key: str) -> int:
    value = pairs.get(key, 0)
    return value if isinstance(value, int) else 0
