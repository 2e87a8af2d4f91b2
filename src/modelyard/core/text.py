"""Text from servers, files and programs, made fit for conditions, logs and terminals."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 128

_LONGEST_LINE: Final = 16 * 1024
# Colours and cursor moves (CSI), titles and links (OSC), and all others, which are two characters.
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")


def clean(text: str, limit: int = LONGEST) -> str:
    """Return text on one line, without control characters and escape sequences, cut at the limit."""
    if not text.isprintable():
        text = "".join(map(_printable, text)).strip()
    return text[:limit]


def log_line(raw: bytes) -> str:
    """Return a line of a log as a terminal would leave it: without escape sequences and control characters.

    Of a progress that was written over itself, the last state is left. Characters that turn the direction of text are
    dropped: with them a line could look like another.
    """
    text = _ESCAPES.sub("", raw[: 4 * _LONGEST_LINE].decode(errors="replace")).rstrip("\r").rpartition("\r")[2]
    shown = text if text.isprintable() else "".join(each if each == "\t" else _printable(each) for each in text)
    return shown if len(shown) <= _LONGEST_LINE else f"{shown[:_LONGEST_LINE]}…"


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else ""
