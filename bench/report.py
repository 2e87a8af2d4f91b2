"""The table: what was measured, what it is compared with, and whether that is good enough."""

from __future__ import annotations

from msgspec import Struct

_TITLES = ("measure", "operator", "floor", "ratio", "goal", "")


class Row(Struct, frozen=True):
    """One line. A goal is the highest value allowed, of the ratio where there is one."""

    measure: str
    operator: float
    unit: str = ""
    floor: float | None = None
    ratio: float | None = None
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None: there is none."""
        if self.goal is None:
            return None
        return (self.operator if self.ratio is None else self.ratio) <= self.goal

    def cells(self) -> tuple[str, ...]:
        """Return the line as text."""
        verdict = {None: "", True: "met", False: "MISSED"}[self.met]
        goal_unit = "x floor" if self.ratio is not None else self.unit
        return (
            self.measure,
            _number(self.operator, self.unit),
            _number(self.floor, self.unit),
            _number(self.ratio, "x"),
            f"<= {_number(self.goal, goal_unit)}" if self.goal is not None else "",
            verdict,
        )


def table(rows: list[Row]) -> str:
    """Return all lines under each other."""
    lines = [_TITLES, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_TITLES))]
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    first, *others = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return " | ".join((first, *others)).rstrip(" |")


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    text = f"{value:.0f}" if value == int(value) and unit not in ("x", "s") else f"{value:.2f}"
    return f"{text} {unit}".strip()
