"""The programs of the control plane: those that `KUBEBUILDER_ASSETS` names, those of the package
`modelyard-controlplane`, or else those that are built once in a checkout.

`run` calls it before anything else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modelyard.core.errors import ModelyardError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

VARIABLE: Final = "KUBEBUILDER_ASSETS"
_BUILD: Final = Path(__file__).resolve().parents[4] / "controlplane" / "build.py"
_PACKAGE: Final = "modelyard_controlplane"
_PREFIX: Final = "No control plane: "


class NoPrograms(ModelyardError):
    """There are no programs of a control plane, and none can be built."""


async def find_programs(say: Callable[[str], None], build: Path = _BUILD) -> Path:
    """Return the folder of the programs, built if needed; `say` is called with each line of progress."""
    if found := _given() or _installed():
        return found
    if build.exists():  # noqa: ASYNC240 - a local file
        # The build also explains what is wrong with a named folder that holds no programs.
        return await _built(say, build)
    raise NoPrograms(
        "this installation holds no Kubernetes control plane; `pip install 'modelyard[local]'` brings one for Linux, "
        "and `make up` in a checkout of Modelyard builds one. Another one is found if "
        f"{VARIABLE} names a folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl"
    )


def _given() -> Path | None:
    """Return the folder that `KUBEBUILDER_ASSETS` names; None: it names none, or one without programs."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given and (Path(given) / "kube-apiserver").exists() else None


def _installed() -> Path | None:
    """Return the folder of an installed control plane; None: there is none, or another one is asked for."""
    if os.environ.get(VARIABLE) or find_spec(_PACKAGE) is None:
        return None
    folder: Path = import_module(_PACKAGE).folder()
    return folder


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
