"""Sources on the machine, or on a mounted volume: files below a root that the caller allows, and no others."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modelyard.core.exitcodes import Code
from modelyard.core.source import file_version
from modelyard.weights.failures import Changed, FetchFailed, Transient
from modelyard.weights.manifest import digest
from modelyard.weights.types import Body, SourceFile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

CHUNK: Final = 4 * 1024 * 1024


def describe(path: str, roots: Iterable[Path]) -> SourceFile:
    """Return a file with its size and a version, once every symbolic link is resolved and below an allowed root."""
    try:
        real = Path(path).resolve(strict=True)
        allowed = [root.resolve(strict=True) for root in roots if root.exists()]
    except OSError as error:
        message = f"{path} cannot be read ({error.strerror})"
        raise FetchFailed(Code.NOT_FOUND, message, "check the path and its mount") from error
    if not any(real.is_relative_to(root) for root in allowed):
        raise FetchFailed(Code.REFUSED, f"{path} is not below an allowed root", "allow its folder with --allow-root")
    if not real.is_file():
        raise FetchFailed(Code.REFUSED, f"{path} is not a file", "name one file")
    stat = real.stat()
    return SourceFile(Path(path).name, str(real), size=stat.st_size, etag=_version(stat))


def is_copy(upstream: SourceFile, size: int, sha256: str) -> bool:
    """Whether a local file still has the content of an earlier copy, although it was written since."""
    with _reading(upstream.name):
        return upstream.size == size and digest(Path(upstream.url)) == sha256


def _version(stat: os.stat_result) -> str:
    return file_version(stat.st_size, stat.st_mtime_ns)


@asynccontextmanager
async def open_local(upstream: SourceFile, offset: int) -> AsyncIterator[Body]:
    """Open a file of the machine at an offset."""
    with _reading(upstream.name):
        handle = os.open(upstream.url, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield Body(offset, upstream.size, _chunks(handle, offset, upstream.name))
        # Without this, a file that is written while it is copied would be kept as a mixture of two versions.
        if _version(os.fstat(handle)) != upstream.etag:
            raise Changed(f"{upstream.name} changed while it was copied")
    finally:
        os.close(handle)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise FetchFailed(Code.AUTH, f"{name} may not be read", "let this user read it") from error
    except OSError as error:
        raise Transient(f"{name} cannot be read ({error.strerror})") from error


async def _chunks(handle: int, offset: int, name: str) -> AsyncIterator[bytes]:
    while True:
        with _reading(name):
            chunk = os.pread(handle, CHUNK, offset)
        if not chunk:
            return
        yield chunk
        offset += len(chunk)
        # Reading never awaits. Without this, SIGTERM would not be noticed before the end of the file.
        await asyncio.sleep(0)
