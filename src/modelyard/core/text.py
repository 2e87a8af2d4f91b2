"""Text of strangers, made fit to be shown."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 128


def clean(text: str, limit: int = LONGEST) -> str:
    """Return text of a stranger, fit to be shown: on one line, without what steers a terminal, and not too long."""
    if not text.isprintable():
        text = "".join(map(_printable, text)).strip()
    return text[:limit]


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else ""
