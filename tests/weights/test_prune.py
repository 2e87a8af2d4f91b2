"""Weights that are not used any more, removed before others are fetched beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.weights.conftest import Desk
from tests.weights.program import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.weights.fileserver import FileServer

OLD, SERVED, NEW = "0" * 16, "1" * 16, "2" * 16


async def fetched(root: Path, server: FileServer, *names: str) -> None:
    for name in names:
        await Desk(root / name).fetch(server.url)


def folders(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()}


async def test_what_no_version_uses_goes_before_others_are_fetched(tmp_path: Path, server: FileServer) -> None:
    await fetched(tmp_path, server, OLD, SERVED)
    ended = await run(server.url, "--to", str(tmp_path / NEW), "--prune-except", SERVED)
    assert (ended.code, ended.lines[0]) == (0, {"removed": OLD})
    assert folders(tmp_path) == {SERVED, NEW}


async def test_it_goes_also_when_the_wanted_weights_are_there(tmp_path: Path, server: FileServer) -> None:
    await fetched(tmp_path, server, OLD, SERVED, NEW)
    await Desk(tmp_path / NEW).fetch(server.url, prune_except=(SERVED,))
    assert folders(tmp_path) == {SERVED, NEW}
    assert "model.gguf" in Desk(tmp_path / NEW).names()


async def test_only_folders_that_are_named_like_ours_go(tmp_path: Path, server: FileServer) -> None:
    await fetched(tmp_path, server, OLD, "mine")
    (tmp_path / "3333333333333333").symlink_to(tmp_path / "mine")
    (tmp_path / "4444444444444444").write_text("a file")
    await Desk(tmp_path / NEW).fetch(server.url, prune_except=(NEW,))
    assert folders(tmp_path) == {"mine", "3333333333333333", "4444444444444444", NEW}


async def test_without_being_told_what_to_keep_nothing_goes(tmp_path: Path, server: FileServer) -> None:
    await fetched(tmp_path, server, OLD, NEW)
    assert folders(tmp_path) == {OLD, NEW}
