"""Progress of a fetch in the log of its container: one line of JSON every two seconds, and one at the end.

The operator reads the last line with the check `LogTail` and shows it in the status of the Model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from modelyard.weights.types import SourceFile

EVERY: Final = 2.0

Say = Callable[[dict[str, Any]], None]
"""Writes one line of JSON."""


class Progress:
    """Counts bytes over all files, and writes a line every two seconds."""

    def __init__(self, files: tuple[SourceFile, ...], say: Say, clock: Callable[[], float]) -> None:
        sizes = [file.size for file in files]
        self._total = sum(size or 0 for size in sizes) if None not in sizes else None
        self._say, self._clock = say, clock
        self._sizes: dict[str, int] = {}
        self._fetched = self._fetched_then = 0
        self._then = clock()

    def at(self, name: str, size: int, *, fetched: int = 0) -> None:
        """Record how far a file is, and how many of its bytes came over the network just now."""
        self._sizes[name] = size
        self._fetched += fetched
        if self._clock() - self._then >= EVERY:
            self.line(name)

    def line(self, name: str) -> None:
        """Write a line now."""
        now, done = self._clock(), sum(self._sizes.values())
        speed = (self._fetched - self._fetched_then) / max(now - self._then, 0.001)
        left = None if self._total is None else max(self._total - done, 0)
        self._say(
            {
                "bytes": done,
                "total": self._total,
                "bytesPerSecond": round(speed),
                "etaSeconds": None if left is None or not speed else round(left / speed),
                "file": name,
            }
        )
        self._fetched_then, self._then = self._fetched, now
