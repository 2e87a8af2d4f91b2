"""Sizes in bytes as text, for the status of a Model."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(size: int) -> str:
    """Return a size as text: `512 B`, `1.5 KiB`, `4.0 GiB`."""
    if size < 1024:
        return f"{size} B"
    unit = min(len(_UNITS), (size.bit_length() - 1) // 10)
    return f"{size / 1024**unit:.1f} {_UNITS[unit - 1]}"
