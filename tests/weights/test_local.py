"""Copying from files of the machine."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from modelyard.core.exitcodes import Code
from modelyard.weights import manifest as manifests
from modelyard.weights.failures import Changed, FetchFailed
from modelyard.weights.local import describe, open_local
from modelyard.weights.types import Refresh
from tests.weights.ggufs import gguf

if TYPE_CHECKING:
    from pathlib import Path

    from tests.weights.conftest import Desk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "m.gguf").write_bytes(gguf(b"weights"))
    (tmp_path / "secret").write_bytes(b"secret")
    return tmp_path / "allowed"


async def test_a_file_below_an_allowed_root_is_copied(desk: Desk, root: Path) -> None:
    root = root.rename(root.with_name("allowed models"))
    for source in (f"{root}/m.gguf", f"file://{root}/m.gguf", f"file://{quote(str(root))}/m.gguf"):
        await desk.fetch(source, allowed_roots=(root.parent / "absent", root))
        assert (desk.folder / "m.gguf").read_bytes() == gguf(b"weights")


async def test_on_change_sees_a_new_file_of_the_same_size(desk: Desk, root: Path) -> None:
    await desk.fetch(f"{root}/m.gguf", allowed_roots=(root,))
    (root / "m.gguf").write_bytes(gguf(b"changed"))
    await desk.fetch(f"{root}/m.gguf", allowed_roots=(root,), refresh=Refresh.ON_CHANGE)
    assert (desk.folder / "m.gguf").read_bytes() == gguf(b"changed")


async def test_a_file_that_is_changed_in_place_is_copied_again(desk: Desk, root: Path) -> None:
    await desk.fetch(f"{root}/m.gguf", allowed_roots=(root,), link="chat.gguf")
    (root / "m.gguf").write_bytes(gguf(b"changed"))
    got = await desk.fetched(f"{root}/m.gguf", allowed_roots=(root,), link="chat.gguf")
    assert (desk.folder / "chat.gguf").read_bytes() == gguf(b"changed")
    assert (got.kept_because, got.choice.files[0].sha256) == ("", sha256(gguf(b"changed")).hexdigest())


async def test_a_file_that_is_only_touched_is_hashed_once_and_not_copied(desk: Desk, root: Path) -> None:
    await desk.fetch(f"{root}/m.gguf", allowed_roots=(root,))
    copy = (desk.folder / "m.gguf").stat()
    os.utime(root / "m.gguf", ns=(1, 1))
    got = await desk.fetch(f"{root}/m.gguf", allowed_roots=(root,))
    assert got.files[0].etag == f"{copy.st_size}-1"
    assert manifests.load(desk.folder).choices == (got,)
    assert (desk.folder / "m.gguf").stat().st_ino == copy.st_ino


async def test_a_copy_is_used_when_the_original_is_gone_and_that_is_said(desk: Desk, root: Path) -> None:
    await desk.fetch(f"{root}/m.gguf", allowed_roots=(root,))
    (root / "m.gguf").unlink()
    got = await desk.fetched(f"{root}/m.gguf", allowed_roots=(root,))
    assert got.kept_because == f"{root}/m.gguf cannot be read (No such file or directory)"
    assert (desk.folder / got.choice.files[0].name).read_bytes() == gguf(b"weights")


async def test_a_file_that_is_written_while_it_is_copied_is_no_mixture(root: Path) -> None:
    path = root / "m.gguf"
    with pytest.raises(Changed):
        async with open_local(describe(str(path), (root,)), 0) as body:
            async for _ in body.chunks:
                os.utime(path, ns=(1, 1))


async def refused(desk: Desk, path: Path, *roots: Path) -> Code:
    with pytest.raises(FetchFailed) as caught:
        await desk.fetch(str(path), allowed_roots=roots)
    return caught.value.code


async def test_nothing_is_read_outside_the_allowed_roots(desk: Desk, root: Path) -> None:
    (root / "link").symlink_to(root.parent / "secret")
    assert await refused(desk, root.parent / "secret", root) is Code.REFUSED
    assert await refused(desk, root / "link", root) is Code.REFUSED
    assert await refused(desk, root / "m.gguf") is Code.REFUSED
    assert await refused(desk, root, root) is Code.REFUSED
    assert await refused(desk, root / "absent", root) is Code.NOT_FOUND
    assert desk.names() == []
