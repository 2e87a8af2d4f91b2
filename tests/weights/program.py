"""`modelyard fetch` as a program of its own, for tests that need a process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0


class Ended(msgspec.Struct, frozen=True):
    """How a process ended, and every line it said."""

    code: int
    lines: tuple[dict[str, Any], ...]
    text: str

    @property
    def result(self) -> dict[str, Any]:
        return self.lines[-1]


async def start(*args: str, before: tuple[str, ...] = (), **environ: str) -> asyncio.subprocess.Process:
    """Start the program with these arguments; `before` is a command that runs it."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return await asyncio.create_subprocess_exec(
        *before,
        sys.executable,
        "-c",
        "from modelyard.cli.main import main; main()",
        "fetch",
        *args,
        env={**kept, "PYTHONPATH": f"{ROOT}/src:{ROOT}", **environ},
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(process: asyncio.subprocess.Process) -> Ended:
    """Wait for the end of a program."""
    async with asyncio.timeout(SECONDS):
        out, err = await process.communicate()
    assert process.returncode is not None
    lines = tuple(json.loads(line) for line in out.decode().splitlines())
    return Ended(process.returncode, lines, out.decode() + err.decode())


async def run(*args: str, before: tuple[str, ...] = (), **environ: str) -> Ended:
    """Run the program to its end."""
    return await ended(await start(*args, before=before, **environ))
