"""`python -m bench`: measure, and print a table."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import uvloop

from bench.agents import AGENTS_AT_REST, agents
from bench.fleet import fleet
from bench.host import host
from bench.objects import MIXES
from bench.page import page
from bench.report import Row, table
from bench.router import router
from bench.sections import SECTIONS, Options
from bench.up import up
from bench.wheels import wheels

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

WHOLES: Final[dict[str, tuple[str, Callable[[argparse.Namespace], Coroutine[None, None, list[Row]]]]]] = {
    "up": ("one machine", lambda given: up(given.rest)),
    "router": ("the router of a canary", lambda _: router()),
    "host": ("the host daemon", lambda _: host()),
    "fleet": ("a fleet of hosts", lambda given: fleet(given.rest)),
    "agents": ("agents at rest", lambda given: agents(given.objects or AGENTS_AT_REST, given.rest)),
    "page": ("the page", lambda _: page()),
    "wheels": ("the wheels", lambda _: wheels()),
}
"""The sections that have no subject: their titles, and what measures them, given the command line."""


async def measure(options: Options, names: list[str]) -> list[Row]:
    """Measure the named sections one after the other."""
    rows = []
    for name in names:
        print(f"-- {name}", file=sys.stderr, flush=True)
        rows += await SECTIONS[name](options)
    return rows


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure the operator against a bare client.")
    parser.add_argument("--objects", type=int, help="how many objects (default: 500; 650 of the stack, 1000 agents)")
    parser.add_argument("--subject", action="append", choices=list(MIXES), help="one kind, or the stack of three")
    parser.add_argument("--pairs", type=int, default=3, help="how often floor and operator alternate (default: 3)")
    parser.add_argument("--rest", type=float, default=60.0, help="seconds to watch the operator at rest (default: 60)")
    parser.add_argument("--only", action="append", choices=[*SECTIONS, *WHOLES], help="one section; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    return parser.parse_args()


def tables(given: argparse.Namespace) -> Iterator[tuple[str, list[Row]]]:
    """Measure what was asked for, and return it as it comes; without a word about that, everything."""
    wanted = given.only or [*SECTIONS, *([] if given.subject else WHOLES)]
    sections = [name for name in wanted if name in SECTIONS]
    for name in (given.subject or MIXES) if sections else ():
        options = Options(name, MIXES[name], given.objects or MIXES[name].objects, given.pairs, given.rest)
        yield f"{options.load.total} objects of {name}", uvloop.run(measure(options, sections))
    for name in (name for name in WHOLES if name in wanted):
        print(f"-- {name}", file=sys.stderr, flush=True)
        title, section = WHOLES[name]
        yield title, uvloop.run(section(given))


def main() -> None:
    """Measure and print. Performance is shown, not asserted: only something broken ends in an error."""
    given = arguments()
    before = os.getloadavg()[0]
    machine = f"{os.cpu_count()} cores, load {before:.1f} before, Python {platform.python_version()}"
    figures = {}
    for title, rows in tables(given):
        print(f"{title}, {machine}\n\n{table(rows)}\n", flush=True)
        figures[title.rpartition(" of ")[2]] = [{**msgspec.structs.asdict(row), "met": row.met} for row in rows]
    if given.json:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))


if __name__ == "__main__":
    main()
