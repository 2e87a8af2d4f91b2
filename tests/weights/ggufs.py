"""Small files that are GGUF."""

from __future__ import annotations

import struct


def gguf(content: bytes = b"") -> bytes:
    """Return a GGUF without metadata and tensors, with some bytes behind its header."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + content
