"""The programs of the control plane: those that `KUBEBUILDER_ASSETS` names, else built once in a checkout.

`run` calls it before anything else. An installed package holds no sources to build from, and says so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modelyard.core.errors import ModelyardError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

VARIABLE: Final = "KUBEBUILDER_ASSETS"
_BUILD: Final = Path(__file__).resolve().parents[4] / "controlplane" / "build.py"
_PREFIX: Final = "No control plane: "


class NoPrograms(ModelyardError):
    """There are no programs of a control plane, and none can be built."""


async def find_programs(say: Callable[[str], None], build: Path = _BUILD) -> Path:
    """Return the folder of the programs, built if needed; `say` is called with each line of progress."""
    if given := _given():
        return given
    if build.exists():  # noqa: ASYNC240 - a local file
        # The build also explains what is wrong with a named folder that holds no programs.
        return await _built(say, build)
    raise NoPrograms(
        "this installation holds no Kubernetes control plane; run `make up` in a checkout of Modelyard, "
        f"or set {VARIABLE} to a folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl"
    )


def _given() -> Path | None:
    """Return the folder that `KUBEBUILDER_ASSETS` names; None: it names none, or one without programs."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given and (Path(given) / "kube-apiserver").exists() else None


async def _built(say: Callable[[str], None], build: Path) -> Path:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(build),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # In a process group of its own with its compilers, so that all of them can be stopped at once.
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        complaints = [line async for line in _lines(process.stderr, say)]
        folder = (await process.stdout.read()).decode().strip()
        code = await process.wait()
    finally:
        with suppress(ProcessLookupError):
            # Not SIGINT: a shell script that started us in the background has made all of us ignore it.
            os.killpg(process.pid, signal.SIGTERM)
    if code != 0:
        raise NoPrograms(_complaint(complaints))
    return Path(folder)


async def _lines(stream: asyncio.StreamReader, say: Callable[[str], None]) -> AsyncIterator[str]:
    async for raw in stream:
        line = raw.decode(errors="replace").rstrip()
        say(line.strip())
        yield line


def _complaint(lines: list[str]) -> str:
    start = next((number for number, line in enumerate(lines) if line.startswith(_PREFIX)), 0)
    said = "\n".join(lines[start:]) or "the build ended without a word"
    return f"there is no control plane: {said.removeprefix(_PREFIX)}"
