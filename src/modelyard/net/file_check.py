"""Answers `RemoteWeights` for a file of this machine, for `source_check`: the operator sees the files of its node.

It blocks, so it is called in a thread. The answer has the form of a server's: the version that the downloader reports
of such a file takes the place of the ETag.
"""

from __future__ import annotations

import stat
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelyard.core.checks import Answer
from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.core.source import file_version
from modelyard.net.gguf import BadHeader, HeaderReader

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from modelyard.core.gguf import GgufReport

_PIECE: Final = 1024 * 1024
_MOST_PIECES: Final = 32


def check_file(path: Path, before: Mapping[str, Any], *, gguf: bool) -> Answer:
    """Return the version, size and GGUF header of a file; `before` is returned again while the version is the same."""
    try:
        found = path.stat()
        # A pipe would be opened only when another process writes into it.
        if not stat.S_ISREG(found.st_mode):
            return _gone(f"{path} is not a file")
        value = {"etag": file_version(found.st_size, found.st_mtime_ns), "contentLength": found.st_size}
        if before.get("etag") == value["etag"]:
            value = dict(before)
        elif gguf and (header := _header(path)):
            value["gguf"] = msgspec.to_builtins(header)
    except OSError as error:
        return _gone(f"{path} cannot be read ({error.strerror})")
    return Answer(True, Reason.ANSWERED, f"{path} is there", value)


def _header(path: Path) -> GgufReport | None:
    """Return the header; None: there is none that can be read, or it is too long."""
    reader = HeaderReader()
    with path.open("rb") as file:
        pieces = islice(iter(lambda: file.read(_PIECE), b""), _MOST_PIECES)
        try:
            return next((header for piece in pieces if (header := reader.feed(piece))), None)
        except BadHeader:
            return None


def _gone(wrong: str) -> Answer:
    remedy = "put it back, or correct spec.source; until then only what is cached can be served"
    return Answer(False, Reason.UPSTREAM_NOT_FOUND, Problem(Reason.UPSTREAM_NOT_FOUND, wrong, remedy).text)
