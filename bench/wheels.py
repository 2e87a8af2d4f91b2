"""The wheels: how long it takes from `pip install 'modelyard[local]'` to the first answer.

Into an empty environment, with all wheels at hand and without a network, as a user with a full cache would.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.report import Row
from bench.up import running
from modelyard.core.errors import ModelyardError
from tools import wheels as built
from tools.wheelhouse import pack_needs

_PACKAGE: Final = "modelyard[local]"


async def wheels() -> list[Row]:
    """Measure an installation and its first start."""
    with tempfile.TemporaryDirectory(prefix="modelyard-wheels-") as name:
        folder = Path(name)
        at_hand = _at_hand(folder / "wheels")
        began = time.perf_counter()
        program = await _installed(folder / "venv", at_hand)
        installed = time.perf_counter() - began
        # Without a folder of programs in the environment, those of the wheel are started.
        async with running(folder / "state", command=(str(program),), assets="") as machine:
            pass
    return [
        Row("pip install", installed, "s"),
        Row("pip install to the first answer", installed + machine.seconds, "s", goal=60.0),
    ]


def _at_hand(folder: Path) -> Path:
    """Make a folder with both wheels, and those of all that they need."""
    folder.mkdir()
    built.modelyard(folder)
    controlplane = built.controlplane()
    (folder / controlplane.name).symlink_to(controlplane)
    pack_needs("modelyard", "local", folder, but=frozenset({"modelyard-controlplane"}))
    return folder


async def _installed(environment: Path, at_hand: Path) -> Path:
    """Install the package into an empty environment, and return its program."""
    await _run(sys.executable, "-m", "venv", "--without-pip", environment)
    pip = ("-m", "pip", "--python", environment / "bin" / "python", "--isolated", "install", "--quiet")
    await _run(sys.executable, *pip, "--no-index", "--find-links", at_hand, _PACKAGE)
    return environment / "bin" / "modelyard"


async def _run(*words: str | Path) -> None:
    process = await asyncio.create_subprocess_exec(*map(str, words))
    if await process.wait():
        raise ModelyardError(f"{' '.join(map(str, words))} failed")
