"""The download of a model, by `modelyard fetch` as a child process, as a pod would run it as an init container.

In a process of its own: hashing gigabytes would hold up the streams that the daemon passes on. `model_worker` calls it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard.core.exitcodes import Code as Exit
from modelyard.host.refusals import LoadFailed
from modelyard.host.wire import Code, Progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

_CODES: Final = {
    Exit.BAD_SOURCE: Code.BAD_SOURCE,
    Exit.AUTH: Code.AUTH_REQUIRED,
    Exit.NOT_FOUND: Code.NOT_FOUND,
    Exit.CHECKSUM: Code.CHECKSUM_MISMATCH,
    Exit.REFUSED: Code.REFUSED,
    Exit.NO_SPACE: Code.NO_SPACE,
}
_PASSING: Final = (Code.NO_SPACE, Code.DOWNLOAD_FAILED)
"""What may be over at the next try without a change of the request."""
_ROOM: Final = "make room on the disk of this host; weights/ of its state folder keeps those of unloaded models, too"


class Download(Struct, frozen=True):
    """What is to be fetched, and where to."""

    source: str
    folder: Path
    file: str = ""
    takes_folder: bool = False
    """Whether all files of the source are wanted, and not one GGUF."""
    roots: tuple[Path, ...] = ()


class Weights(Struct, frozen=True):
    """Files that are all there."""

    folder: Path
    file: str
    """The one to serve, or any of many."""
    size: int


async def fetch_weights(
    download: Download, env: Mapping[str, str], log: Path, tell: Callable[[Progress], None]
) -> Weights:
    """Fetch the weights of a model, and return them once all are there; `LoadFailed` when that is not possible."""
    last: dict[str, Any] = {}
    async with _running(download, env, log) as process:
        assert process.stdout is not None
        async for line in process.stdout:
            with suppress(msgspec.DecodeError):
                last = msgspec.json.decode(line, type=dict[str, Any])
            if "total" in last:
                tell(Progress(last["bytes"], last["total"] or 0))
        code = await process.wait()
    if code == Exit.OK:
        return Weights(download.folder, last["file"], last["bytes"])
    raise failure_of(code, last)


@asynccontextmanager
async def _running(download: Download, env: Mapping[str, str], log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    with log.open("ab") as complaints:
        process = await asyncio.create_subprocess_exec(
            *_words(download),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=complaints,
            # By a variable: arguments are shown to all users of the machine.
            env={**env, "MODEL_SOURCE": download.source, "TERMINATION_LOG": os.devnull},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _words(download: Download) -> tuple[str, ...]:
    picked = ("--all",) if download.takes_folder else ("--file", download.file) if download.file else ()
    roots = (word for root in download.roots for word in ("--allow-root", str(root)))
    return (sys.executable, "-P", "-m", "modelyard", "fetch", "--to", str(download.folder), *picked, *roots)


def failure_of(exit_code: int, result: dict[str, Any]) -> LoadFailed:
    """Return why a download has ended, with the next step on this machine, from what it printed last."""
    codes = {int(known): code for known, code in _CODES.items()}
    code = codes.get(exit_code, Code.DOWNLOAD_FAILED)
    remedy = _ROOM if code is Code.NO_SPACE else result.get("remedy", "")
    said = "; ".join(filter(None, (result.get("message", ""), remedy)))
    message = said or f"the download ended with code {exit_code}; it is tried again"
    return LoadFailed(code, message, is_final=code not in _PASSING)
