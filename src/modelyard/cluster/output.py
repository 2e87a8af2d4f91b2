"""What verbs print: tables for people, JSON and YAML for programs. All of it is a value first, so that both agree."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

from modelyard.core.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GAP: Final = "   "
_NONE: Final = "-"
_LONGEST_CELL: Final = 1024
_AGES: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
# kubectl's own rule: up to so many of a unit, the next smaller one is used, so that `90s` is not `1m`.
_WHOLE: Final = 3


class Output(StrEnum):
    """The forms of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_for_programs(self) -> bool:
        """Whether a program reads it."""
        return self in (Output.JSON, Output.YAML)


def encoded(value: Any, output: Output) -> str:
    """Return a value as JSON or YAML."""
    plain = msgspec.to_builtins(value)
    if output is Output.YAML:
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=1000)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows in columns below their titles, as kubectl prints them. Nothing in a cell can reach the terminal."""
    lines = [tuple(titles), *(tuple(clean(cell, _LONGEST_CELL) or _NONE for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (_GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "".join(f"{line.rstrip()}\n" for line in padded)


def age(created: str, now: datetime) -> str:
    """Return how long ago a time was, in one unit, as kubectl does; empty: the time is not known."""
    try:
        seconds = max(0, int((now - datetime.fromisoformat(created)).total_seconds()))
    except ValueError:
        return ""
    unit, length = next((each for each in _AGES if seconds >= _WHOLE * each[1]), _AGES[-1])
    return f"{seconds // length}{unit}"
