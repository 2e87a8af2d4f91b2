"""`python -m bench`: measure, and print a table."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path

import msgspec
import uvloop

from bench.report import Row, table
from bench.sections import SECTIONS, Options


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
    parser.add_argument("--objects", type=int, default=500, help="how many MCP objects (default: 500)")
    parser.add_argument("--pairs", type=int, default=3, help="how often floor and operator alternate (default: 3)")
    parser.add_argument("--rest", type=float, default=60.0, help="seconds to watch the operator at rest (default: 60)")
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="one section; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    return parser.parse_args()


def main() -> None:
    """Measure and print. Performance is shown, not asserted: only something broken ends in an error."""
    given = arguments()
    options = Options(given.objects, given.pairs, given.rest)
    before = os.getloadavg()[0]
    rows = uvloop.run(measure(options, given.only or list(SECTIONS)))
    machine = f"{os.cpu_count()} cores, load {before:.1f} before, Python {platform.python_version()}"
    print(f"{options.objects} MCP objects, {machine}\n")
    print(table(rows))
    if given.json:
        figures = {"options": options, "rows": [{**msgspec.structs.asdict(row), "met": row.met} for row in rows]}
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))


if __name__ == "__main__":
    main()
