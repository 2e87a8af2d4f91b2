"""What users see of `modelyard up`: steps, the table of objects, and the commands to try next.

`machine`, `run` and `commands` show everything through it. On a terminal the picture is redrawn until all objects are
settled. Elsewhere, and from then on, each change is one line, as in a log.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Column, Table
from rich.text import Text

from modelyard.home import home_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from rich.console import RenderableType

    from modelyard.local.up.rows import Row
    from modelyard.local.up.state_folder import UpRecord

Clock = Callable[[], float]


def _now() -> datetime:
    return datetime.now().astimezone()


_TITLES: Final = ("kind", "name", "phase", "ready", "reason", "url")
# Wide enough for an address: a file has no width that could be asked for.
_PLAIN_WIDTH: Final = 160
# On a narrower terminal a table would lose names and addresses.
_LEAST_WIDTH: Final = 72
_INDENT: Final = 2
# Blank lines, the header, and the line that says how much is cut.
_AROUND_TABLE: Final = 6
# With one of these set, curl would ask the proxy for loopback addresses, which are not those of the proxy.
_CURL_PROXIES: Final = ("http_proxy", "all_proxy", "ALL_PROXY")
_QUESTION: Final = "Which model are you?"
_CHAT: Final = "/chat/completions"


class _Step(msgspec.Struct):
    name: str
    detail: str
    began: float
    ended: float | None = None


class Screen:
    """Shows steps and objects. It is a context manager around all code that shows something."""

    def __init__(self, console: Console, clock: Clock = time.monotonic, now: Callable[[], datetime] = _now) -> None:
        self.console, self._clock, self._now = console, clock, now
        self._steps: dict[str, _Step] = {}
        self._rows: tuple[Row, ...] = ()
        # Before a `Live` is made: it asks for its first picture at once.
        self._live: Live | None = None
        self._live = Live(get_renderable=self.picture, console=console) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.freeze()

    def freeze(self) -> bool:
        """Stop redrawing, and return whether there is a picture. Later lines are added below it."""
        if not self._live:
            return False
        # Before the last picture: that one stays in the scrollback, and need not fit on the screen.
        live, self._live = self._live, None
        live.stop()
        return True

    def begin(self, step: str, detail: str = "") -> None:
        """Show that a step has begun, or how far it is."""
        known = self._steps.setdefault(step, _Step(step, detail, self._clock()))
        known.detail = detail
        if not self._live:
            self._line(f"{step}: {detail or 'starting'}")

    def done(self, step: str, detail: str = "") -> None:
        """Show that a step is done."""
        known = self._steps.setdefault(step, _Step(step, detail, self._clock()))
        known.detail, known.ended = detail, self._clock()
        if not self._live:
            self._line(f"{step}: {detail or 'ready'}")

    def say(self, line: str) -> None:
        """Show a line of its own."""
        if self._live:
            self.console.print(Text(line))
        else:
            self._line(line)

    def show(self, rows: Sequence[Row]) -> None:
        """Show the objects: in the picture, or a line for each that has changed."""
        news = [row for row in rows if row not in self._rows and (row.is_current or not row.reason)]
        self._rows = tuple(rows)
        if self._live:
            self._count()
            return
        for row in news:
            self._line(_sentence(row))

    def _count(self) -> None:
        ready = sum(row.is_ready for row in self._rows)
        tell = self.done if all(row.is_as_wanted for row in self._rows) else self.begin
        tell("objects", f"{ready} of {len(self._rows)} ready")

    def _line(self, text: str) -> None:
        # On a full disk the line is lost. That is no reason to stop serving.
        with suppress(OSError):
            self.console.print(Text(f"{self._now():%H:%M:%S}  {text}"), soft_wrap=True)

    def picture(self) -> RenderableType:
        """Return the picture of all steps and objects now."""
        steps = Table.grid(*(Column(no_wrap=True) for _ in range(3)), Column(), padding=(0, 2))
        for step in self._steps.values():
            over = step.ended is not None
            sign = Text("✓", "green") if over else Spinner("dots", style="cyan")
            taken = (step.ended if step.ended is not None else self._clock()) - step.began
            steps.add_row(sign, step.name, Text(f"{taken:.1f} s", "dim"), Text(step.detail, "dim"))
        height = self.console.height - len(self._steps) - _AROUND_TABLE if self._live else 0
        shown = [_indented(table(self._rows, self.console.width, height))] if self._rows else []
        return Group(_indented(steps), *shown)


def console(*, stderr: bool = False) -> Console:
    """Return a console for standard output or standard error; wide if it is no terminal."""
    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=_PLAIN_WIDTH)


def table(rows: Sequence[Row], width: int, height: int = 0) -> RenderableType:
    """Return objects as a table with their notes below it; as sentences if the terminal is narrow.

    What is not as wanted comes first. With a height, of what is as wanted only so much is shown as fits; 0: all of it.
    """
    is_wide = _natural_width(rows) <= width
    shown = _fitting(sorted(rows, key=lambda row: row.is_as_wanted), width, height, is_wide=is_wide)
    cut = [Text(f"and {len(rows) - len(shown)} more that are as wanted", "dim")] if len(shown) < len(rows) else []
    if width < _LEAST_WIDTH:
        return Group(*(Text(_sentence(row)) for row in shown), *cut)
    # An address that is broken over two lines cannot be copied.
    places = [] if is_wide else [Text(f"{row.name}: {row.url}") for row in shown if row.is_ready and row.url]
    notes = [Text(f"{row.kind} {row.name}: {row.note}") for row in shown if row.note]
    below = [*places, *notes]
    return Group(_grid(shown, _TITLES if is_wide else _TITLES[:-1]), *cut, *([Text(), *below] if below else []))


def _grid(rows: Sequence[Row], titles: Sequence[str]) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        grid.add_column(title.upper(), overflow="fold", no_wrap=True)
    for row in rows:
        style = "green" if row.is_as_wanted else "red" if row.is_settled else "yellow"
        cells = (row.kind, row.name, Text(row.phase, style), row.ready, row.reason, row.url)
        grid.add_row(*cells[: len(titles)])
    return grid


def _natural_width(rows: Sequence[Row]) -> int:
    columns = (max(len(title), *(len(getattr(row, title)) for row in rows)) for title in _TITLES)
    return _INDENT + sum(column + 2 for column in columns)


def _fitting(rows: Sequence[Row], width: int, height: int, *, is_wide: bool) -> list[Row]:
    """Return all rows that are not as wanted, and of the others the first that fit into the height; 0: no limit."""
    shown, left = [], height if height > 0 else len(rows) * width
    for row in rows:
        left -= 1 + (row.is_ready and bool(row.url) and not is_wide) - (-len(row.note) // width)
        if left >= 0 or not row.is_as_wanted:
            shown.append(row)
    return shown


def hints(rows: Sequence[Row], kubeconfig: Path, record: UpRecord, page: str = "") -> list[str]:
    """Return the lines with commands to try next: the door, a question to the first service that is ready, kubectl.

    `page` is the address of the page, which works once; empty: it is not shown.
    """
    return [
        *(_door_hints(record.door) if record.door else []),
        *_question_hints(rows, record.door),
        *(["See everything in a browser; the address works once:", f"  {page}", ""] if page else []),
        "Look around:",
        f"  export KUBECONFIG={_in_shell(kubeconfig)}",
        f"  export PATH={_in_shell(Path(record.assets))}:$PATH   # kubectl is there",
        "  kubectl get models,inferenceservices,pods",
    ]


def _door_hints(door: str) -> list[str]:
    return [
        f"All models at one address: {door}",
        f"  export OPENAI_BASE_URL={door} OPENAI_API_KEY=none",
        "",
    ]


def _question_hints(rows: Sequence[Row], door: str) -> list[str]:
    served = next((row for row in rows if row.is_ready and row.url.endswith(_CHAT)), None)
    if served is None:
        return []
    asked = question(door + _CHAT, _model_name(served, rows)) if door else question(served.url)
    return ["Ask it:", f"  {asked}", ""]


def _model_name(served: Row, rows: Sequence[Row]) -> str:
    """Return a name by which the door knows a service: with its namespace, unless it is the only one of that name."""
    namespace, _, name = served.name.rpartition("/")
    same = [row for row in rows if row.kind == served.kind and row.name.rpartition("/")[2] == name]
    return served.name if namespace and len(same) > 1 else name


def report(where: Console, rows: Sequence[Row], lines: Sequence[str]) -> None:
    """Show a table of objects, if there are any, and lines that can be copied into a shell."""
    if rows:
        where.print(_indented(table(rows, where.width)))
    for line in ("", *lines, ""):
        where.print(Text(f"  {line}".rstrip()), soft_wrap=True)


def question(url: str, model: str = "") -> str:
    """Return the curl command that asks a chat service which model it is. Empty: the service has only one model."""
    named = {"model": model} if model else {}
    body = {**named, "messages": [{"role": "user", "content": _QUESTION}], "temperature": 0}
    data = shlex.quote(msgspec.json.encode(body).decode())
    direct = " --noproxy '*'" if any(map(os.environ.get, _CURL_PROXIES)) else ""
    return f"curl -s {shlex.quote(url)}{direct} -H 'Content-Type: application/json' -d {data}"


def _in_shell(path: Path) -> str:
    """Return a path quoted for a shell, with `$HOME` if it is below the home of the user."""
    home = home_folder()
    inside = str(path.relative_to(home)) if home and path.is_relative_to(home) else ""
    return f'"$HOME/{inside}"' if inside and shlex.quote(inside) == inside else shlex.quote(str(path))


def _indented(what: RenderableType) -> RenderableType:
    return Group(Text(), Padding(what, (0, 0, 0, 2), expand=False))


def _sentence(row: Row) -> str:
    why = f" ({row.reason})" if row.reason and row.reason != row.phase else ""
    note = f": {row.note}" if row.note else f" at {row.url}" if row.url and row.is_ready else ""
    return f"{row.kind} {row.name}: {row.phase}{why}, ready {row.ready}{note}"
