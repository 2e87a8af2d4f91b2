"""The doubling of every back-off: of reconciles, watches, checks, calls and downloads. Each adds its own jitter."""

from __future__ import annotations

from typing import Final

_MOST_DOUBLINGS: Final = 32
"""More would only overflow: every `longest` is reached long before."""


def doubled(failures: int, first: float, longest: float) -> float:
    """Return the seconds to wait after this many failures in a row: `first`, then twice as long each time."""
    return min(longest, first * 2.0 ** min(max(failures, 1) - 1, _MOST_DOUBLINGS))
