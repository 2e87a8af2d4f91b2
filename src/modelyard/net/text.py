"""Text of strangers, made fit to be shown."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 128


def clean(text: str, limit: int = LONGEST) -> str:
    """Return text of a stranger, fit to be shown: printable and not too long."""
    if not text.isprintable():
        text = "".join(character for character in text if character.isprintable())
    return text[:limit]
