"""Words for messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def join_words(words: Sequence[str]) -> str:
    """Return words as a sentence lists them: `a`, `a and b`, `a, b and c`; empty: there are none."""
    *first, last = words or [""]
    return f"{', '.join(first)} and {last}" if first else last
