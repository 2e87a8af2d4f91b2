"""One engine as a child process: started, waited for until it answers, and ended with all that it has started.

`model_worker` calls it. The record that is written at the start lets the reaper find the process when the daemon is
killed.
"""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NoReturn

import aiohttp

from modelyard.core.text import clean
from modelyard.host.engines import HOST
from modelyard.host.refusals import LoadFailed
from modelyard.host.wire import Code
from modelyard.local.files import tail
from modelyard.local.node.process.container_record import ContainerRecord, write_record
from modelyard.local.node.process.process import Launch, Process
from modelyard.local.node.server.log_rotation import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.node.storage.pod_folders import ContainerFolder

LOAD_SECONDS: Final = 1800.0
_END_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1
_TRIM_SECONDS: Final = 10.0
_LONGEST_LINE: Final = 500
_NO_PROGRAM: Final = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR, errno.EPERM})
_ANSWER: Final = aiohttp.ClientTimeout(total=5.0)
_NO_LIMIT: Final = aiohttp.ClientTimeout(total=None)
_ONCE: Final = {"Connection": "close"}
"""llama.cpp gives each connection one of its few threads, also while it is idle."""

Json = dict[str, Any]


@asynccontextmanager
async def running_engine(folder: ContainerFolder, launch: Launch) -> AsyncIterator[asyncio.Task[int]]:
    """Run an engine while the block lasts; yields a task that has its exit code. `LoadFailed` when it cannot start."""
    process = await _start(folder, launch)
    ended, trimming = asyncio.create_task(process.wait()), asyncio.create_task(_keep_short(folder))
    try:
        write_record(folder.record, ContainerRecord(pid=process.pid, birth=process.birth, folder=str(folder.folder)))
        yield ended
    finally:
        trimming.cancel()
        await process.end(_END_SECONDS)
        # Both: it also kills what the engine has started.
        await asyncio.wait({ended, trimming})


async def is_ready(
    session: aiohttp.ClientSession, port: int, first_request: Json | None, ended: asyncio.Task[int]
) -> bool:
    """Wait until an engine answers, and return True; False: it has ended before. `LoadFailed` after half an hour.

    With a first request only its answer counts, not that the engine says that it is well.
    """
    answering = asyncio.create_task(_until_ready(session, port, first_request))
    try:
        await asyncio.wait({answering, ended}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            answering.result()
        return answering.done() and not ended.done()
    finally:
        answering.cancel()
        await asyncio.wait({answering})


async def health(session: aiohttp.ClientSession, port: int) -> int:
    """Return the HTTP status with which an engine answers `/health`; 0: it does not answer."""
    with suppress(aiohttp.ClientError, TimeoutError):
        async with session.get(f"http://{HOST}:{port}/health", headers=_ONCE, timeout=_ANSWER) as response:
            return response.status
    return 0


def shorten(folder: ContainerFolder, most: int = MOST_BYTES // 2) -> bool:
    """Make the end of a log of more than `most` bytes the previous one, and begin it anew; return whether it was.

    No more than the end: an engine may write faster than a disk copies. On macOS files have no holes to punch.
    """
    with suppress(OSError):
        if folder.log.stat().st_size <= most:
            return False
        # A full disk has no room for a copy, and needs the rest all the more.
        with suppress(OSError):
            folder.previous_log.write_bytes(_end(folder.log, most))
        # The engine appends, so what it writes next is at the beginning.
        os.truncate(folder.log, 0)
        return True
    return False


def last_words(folder: ContainerFolder) -> str:
    """Return the last line that an engine has written; empty: none."""
    with suppress(OSError):
        lines = tail(folder.log).strip().splitlines()
        return clean(lines[-1], _LONGEST_LINE) if lines else ""
    return ""


async def _start(folder: ContainerFolder, launch: Launch) -> Process:
    if not shorten(folder):
        with suppress(FileNotFoundError):
            folder.log.replace(folder.previous_log)
    try:
        return await Process.start(launch, folder.log)
    except OSError as error:
        # A full disk, or too many processes: that may be over at the next try, and no other program would help.
        is_missing = error.errno in _NO_PROGRAM
        code = Code.ENGINE_MISSING if is_missing else Code.ENGINE_FAILED
        raise LoadFailed(code, f"{launch.argv[0]} cannot be started: {error}", is_final=is_missing) from error


def _end(log: Path, size: int) -> bytes:
    with log.open("rb") as stream:
        stream.seek(-size, os.SEEK_END)
        return stream.read(size)


async def _keep_short(folder: ContainerFolder) -> NoReturn:
    while True:
        await asyncio.sleep(_TRIM_SECONDS)
        await asyncio.to_thread(shorten, folder)


async def _until_ready(session: aiohttp.ClientSession, port: int, first_request: Json | None) -> None:
    try:
        async with asyncio.timeout(LOAD_SECONDS):
            # By polling: a server cannot tell when it will be ready.
            while not (await health(session, port) == HTTPStatus.OK and await _answers(session, port, first_request)):  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as error:
        message = f"the engine did not answer within {LOAD_SECONDS:.0f} s; engines/*/log of the host may say why"
        raise LoadFailed(Code.LOAD_TIMEOUT, message) from error


async def _answers(session: aiohttp.ClientSession, port: int, request: Json | None) -> bool:
    if request is None:
        return True
    with suppress(aiohttp.ClientError):
        # Without a limit of its own: the model is loaded meanwhile, which may take most of `LOAD_SECONDS`.
        async with session.post(
            f"http://{HOST}:{port}/v1/chat/completions", json=request, timeout=_NO_LIMIT
        ) as response:
            return response.status == HTTPStatus.OK
    return False
