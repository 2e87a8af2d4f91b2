"""When a line of progress is written, and what it says."""

from __future__ import annotations

from typing import Any

from modelyard.weights.progress import Progress
from modelyard.weights.types import SourceFile


class Watch:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_comes_every_two_seconds_and_counts_all_files() -> None:
    watch, lines = Watch(), list[dict[str, Any]]()
    progress = Progress((SourceFile("a", "", size=600), SourceFile("b", "", size=400)), lines.append, watch)
    progress.at("a", 300)
    for _ in range(4):
        watch.now += 0.5
        progress.at("a", 600, fetched=75)
    progress.at("b", 100, fetched=100)
    assert lines == [{"bytes": 600, "total": 1000, "bytesPerSecond": 150, "etaSeconds": 3, "file": "a"}]
    watch.now += 1
    progress.line("b")
    assert lines[1] == {"bytes": 700, "total": 1000, "bytesPerSecond": 100, "etaSeconds": 3, "file": "b"}


def test_what_is_not_known_is_null() -> None:
    watch, lines = Watch(), list[dict[str, Any]]()
    Progress((SourceFile("a", ""),), lines.append, watch).line("a")
    assert lines == [{"bytes": 0, "total": None, "bytesPerSecond": 0, "etaSeconds": None, "file": "a"}]
