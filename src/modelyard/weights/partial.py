"""A partial file: bytes come in order, and only a whole and verified file gets its final name.

The name of a partial file carries the version of its content, so bytes of two versions never meet in one file. A
partial file is never cut short in place: starting over makes a new one. So even if two processes write the same file,
because a volume promised a lock and did not keep it, they write the same bytes to the same places.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from typing import TYPE_CHECKING, Final

from modelyard.core.exitcodes import Code
from modelyard.weights import gguf
from modelyard.weights.failures import Changed, FetchFailed
from modelyard.weights.manifest import Kept
from modelyard.weights.names import PARTIAL
from modelyard.weights.volume import explained

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from modelyard.weights.types import SourceFile

_BLOCK: Final = 4 * 1024 * 1024
_PAGES: Final = (b"<!doctype html", b"<html", b"version https://git-lfs.github.com/")
"""How a page begins, and the note that a repository without its big files has in their place."""
_MAY_BE_PAGES: Final = (".html", ".htm", ".md")
_LONGEST_SIGN: Final = 128


class Partial:
    """One file of a folder while it is being fetched. `lasting`: it may stay for a later process to go on with."""

    def __init__(self, folder: Path, upstream: SourceFile, *, locked: bool) -> None:
        self._folder, self._upstream = folder, upstream
        self.lasting = locked and bool(upstream.version)
        mark = upstream.version if self.lasting else os.urandom(6).hex()
        self.path = folder / f"{upstream.name}.{mark}{PARTIAL}"
        self.size = 0
        self._digest = hashlib.sha256()
        self._handle = -1

    @property
    def present(self) -> int:
        """The bytes that an earlier process left."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    async def resume(self, read: Callable[[int], None]) -> None:
        """Open the file, and read what is there into the hash. `read` is told how far that is."""
        if self._upstream.size is not None and self.present > self._upstream.size:
            self.discard()
        with explained(self._folder):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = self._open()
            while block := os.pread(self._handle, _BLOCK, self.size):
                self._digest.update(block)
                self.size += len(block)
                read(self.size)
                # Lets a signal in between two blocks.
                await asyncio.sleep(0)

    def restart(self) -> None:
        """Begin again, with a new file."""
        self.discard()
        with explained(self._folder):
            self._handle = self._open()

    def write(self, chunk: bytes) -> None:
        """Append bytes."""
        view = memoryview(chunk)
        with explained(self._folder):
            while view:
                written = os.pwrite(self._handle, view, self.size)
                self._digest.update(view[:written])
                self.size += written
                view = view[written:]

    def finish(self) -> None:
        """Verify the file and bring it to the disk. One that is wrong is removed."""
        found = self._digest.hexdigest()
        wanted = self._upstream.sha256
        if wanted and found != wanted:
            self.discard()
            message = f"{self._upstream.name} has the sha256 {found} where {wanted} was expected"
            raise FetchFailed(Code.CHECKSUM, message, "check the hash, and that the source is what it should be")
        if not wanted and self._is_page():
            self.discard()
            message = f"a page came in the place of {self._upstream.name}"
            raise FetchFailed(Code.BAD_SOURCE, message, "name the file itself; a page to log in asks for credentials")
        if self._upstream.gguf:
            self._refuse_what_is_no_gguf()
        with explained(self._folder):
            os.fsync(self._handle)

    def _refuse_what_is_no_gguf(self) -> None:
        with explained(self._folder):
            fault = gguf.fault(self.path)
        if fault:
            self.discard()
            remedy = "name a GGUF file, or mend the one that is there; it is tried again"
            raise FetchFailed(Code.BAD_SOURCE, f"{self._upstream.name} {fault}", remedy)

    def _is_page(self) -> bool:
        """Whether this is what servers and proxies send with status 200 when they do not send the file."""
        with explained(self._folder):
            head = os.pread(self._handle, _LONGEST_SIGN, 0).lstrip().lower()
        return head.startswith(_PAGES) and not self._upstream.name.lower().endswith(_MAY_BE_PAGES)

    def publish(self) -> Kept:
        """Give the file its final name."""
        with explained(self._folder):
            mine = os.fstat(self._handle)
            try:
                there = self.path.stat()
            except FileNotFoundError as error:
                raise Changed(f"{self._upstream.name} was taken away by another process") from error
            if (mine.st_ino, mine.st_size) != (there.st_ino, self.size):
                raise Changed(f"{self._upstream.name} was replaced by another process")
            self.path.replace(self._folder / self._upstream.name)
            # Two names of one file are both left alone by a rename.
            self.path.unlink(missing_ok=True)
        return Kept(self._upstream.name, self.size, self._digest.hexdigest(), self._upstream.etag)

    def discard(self) -> None:
        """Remove the file."""
        self._close()
        with explained(self._folder):
            self.path.unlink(missing_ok=True)
        self.size, self._digest = 0, hashlib.sha256()

    def leave(self) -> None:
        """Close the file. What was written stays if a later process can go on with it."""
        if self.lasting:
            self._close()
        else:
            self.discard()

    def _close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except PermissionError:
            # Left by another user of the volume: its bytes are lost to us, its name is not.
            self.path.unlink(missing_ok=True)
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def sweep(folder: Path, keep: frozenset[Path]) -> None:
    """Remove partial files that no fetch will go on with. Only under the lock: another process may be writing one."""
    with explained(folder):
        for path in folder.rglob(f"*{PARTIAL}"):
            if path not in keep:
                path.unlink(missing_ok=True)
