"""Copying from files of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelyard.core.exitcodes import Code
from modelyard.weights.failures import FetchFailed
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
    for source in (f"{root}/m.gguf", f"file://{root}/m.gguf"):
        await desk.fetch(source, allowed_roots=(root.parent / "absent", root))
        assert (desk.folder / "m.gguf").read_bytes() == gguf(b"weights")


async def test_on_change_sees_a_new_file_of_the_same_size(desk: Desk, root: Path) -> None:
    await desk.fetch(f"{root}/m.gguf", allowed_roots=(root,))
    (root / "m.gguf").write_bytes(gguf(b"changed"))
    await desk.fetch(f"{root}/m.gguf", allowed_roots=(root,), refresh=Refresh.ON_CHANGE)
    assert (desk.folder / "m.gguf").read_bytes() == gguf(b"changed")


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
