"""GGUF headers for tests, made of bytes."""

from __future__ import annotations

import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}

Pair = tuple[str, int, bytes]


def text(value: str | bytes) -> bytes:
    """A string as GGUF writes it: its length, then its bytes."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def string(key: str, value: str | bytes) -> Pair:
    return key, STRING, text(value)


def number(key: str, value: float, kind: int = U32) -> Pair:
    return key, kind, struct.pack(f"<{_FORMATS[kind]}", value)


def strings(key: str, values: list[str]) -> Pair:
    return key, ARRAY, struct.pack("<IQ", STRING, len(values)) + b"".join(text(value) for value in values)


def numbers(key: str, values: list[float], kind: int = U32) -> Pair:
    return key, ARRAY, struct.pack(f"<IQ{len(values)}{_FORMATS[kind]}", kind, len(values), *values)


def gguf(*pairs: Pair, version: int = 3, tensors: int = 2, count: int | None = None) -> bytes:
    """A header with these pairs; `count` is the number it claims to have."""
    body = b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in pairs)
    return b"GGUF" + struct.pack("<IQQ", version, tensors, len(pairs) if count is None else count) + body
