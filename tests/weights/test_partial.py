"""Two writers of one folder whose volume has no locks, or promises locks and does not keep them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from modelyard.weights.failures import Changed
from modelyard.weights.partial import Partial, sweep
from modelyard.weights.types import SourceFile

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = bytes(range(256)) * 40
UPSTREAM = SourceFile("m.gguf", "", size=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())


async def opened(folder: Path, *, locked: bool) -> Partial:
    partial = Partial(folder, UPSTREAM, locked=locked)
    await partial.resume(lambda _: None)
    return partial


async def test_without_locks_each_writer_has_its_own_file(tmp_path: Path) -> None:
    first, second = [await opened(tmp_path, locked=False) for _ in range(2)]
    for partial in (first, second):
        partial.write(CONTENT)
        partial.finish()
    assert first.publish() == second.publish()
    for partial in (first, second):
        partial.leave()
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]
    assert (tmp_path / "m.gguf").read_bytes() == CONTENT


async def test_with_false_locks_the_end_is_whole_all_the_same(tmp_path: Path) -> None:
    first = await opened(tmp_path, locked=True)
    first.write(CONTENT[:5000])
    second = await opened(tmp_path, locked=True)
    assert second.size == 5000
    second.write(CONTENT[5000:])
    first.write(CONTENT[5000:7000])
    second.finish()
    second.publish()
    first.write(CONTENT[7000:])
    first.finish()
    with pytest.raises(Changed, match="taken away"):
        first.publish()
    for partial in (first, second):
        partial.leave()
    assert (tmp_path / "m.gguf").read_bytes() == CONTENT


async def test_starting_over_does_not_cut_what_another_writes(tmp_path: Path) -> None:
    first = await opened(tmp_path, locked=True)
    first.write(CONTENT)
    second = await opened(tmp_path, locked=True)
    second.restart()
    second.write(CONTENT[:10])
    with pytest.raises(Changed, match="replaced"):
        first.publish()
    second.write(CONTENT[10:])
    second.finish()
    second.publish()
    for partial in (first, second):
        partial.leave()
    assert (tmp_path / "m.gguf").read_bytes() == CONTENT


async def test_a_partial_file_that_is_too_long_is_dropped(tmp_path: Path) -> None:
    first = await opened(tmp_path, locked=True)
    first.write(CONTENT + b"more")
    first.leave()
    second = await opened(tmp_path, locked=True)
    assert second.size == 0
    second.leave()


async def test_partial_files_of_other_versions_are_swept_away(tmp_path: Path) -> None:
    kept = await opened(tmp_path, locked=True)
    (tmp_path / "sub").mkdir()
    for name in ("m.gguf.0123.partial", "sub/x.9.partial", "other.txt"):
        (tmp_path / name).touch()
    sweep(tmp_path, frozenset({kept.path}))
    kept.leave()
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [kept.path.name, "other.txt"]
