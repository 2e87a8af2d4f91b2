"""Text from servers, files and programs, made fit for conditions, logs and terminals."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 128


def clean(text: str, limit: int = LONGEST) -> str:
    """Return text on one line, without control characters and escape sequences, cut at the limit."""
    if not text.isprintable():
        text = "".join(map(_printable, text)).strip()
    return text[:limit]


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else ""
