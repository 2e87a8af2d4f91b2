"""Files of this machine are looked at like those of a server."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import msgspec

from modelyard.core.checks.remote_weights import RemoteWeights
from modelyard.core.reasons import Reason
from modelyard.net.gguf import HeaderReader
from modelyard.net.source_check import SourceChecker
from tests.net.upstream import guard

YARD = (Path(__file__).parents[1] / "data" / "yard.gguf").read_bytes()
HEADER = msgspec.to_builtins(HeaderReader().feed(YARD))


def check(path: Path, *, gguf: bool = True) -> RemoteWeights:
    return RemoteWeights(f"file://{quote(str(path))}", 10.0, gguf)


async def test_a_file_is_seen_with_its_version_its_length_and_its_header(tmp_path: Path) -> None:
    file, checker = tmp_path / "my model.gguf", SourceChecker(guard())
    file.write_bytes(YARD)
    os.utime(file, ns=(1, 1))
    answer = await checker.check(check(file))
    assert answer.value == {"etag": f"{len(YARD)}-1", "contentLength": len(YARD), "gguf": HEADER}
    assert await checker.check(check(file)) == answer
    os.utime(file, ns=(2, 2))
    assert (await checker.check(check(file))).value == {**answer.value, "etag": f"{len(YARD)}-2"}


async def test_a_file_without_a_header_is_there_as_well(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_bytes(b"# Read me")
    os.utime(file, ns=(1, 1))
    answer = await SourceChecker(guard()).check(check(file))
    assert answer.value == {"etag": "9-1", "contentLength": 9}


async def test_what_is_gone_or_no_file_is_not_found(tmp_path: Path) -> None:
    checker = SourceChecker(guard())
    for path, wrong in ((tmp_path / "gone", "cannot be read (No such file or directory)"), (tmp_path, "is not a file")):
        answer = await checker.check(check(path))
        assert (answer.ok, answer.reason) == (False, Reason.UPSTREAM_NOT_FOUND)
        assert answer.message.startswith(f"{path} {wrong}; put it back")
