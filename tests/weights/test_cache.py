"""What a scan of a cache finds, and what a removal leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.source import cache_key
from modelyard.weights.cache import Folder, remove, scan
from modelyard.weights.manifest import Choice, Kept, Manifest, write

if TYPE_CHECKING:
    from pathlib import Path

ONE, OTHER = cache_key("one"), cache_key("other")


def fill(root: Path) -> Path:
    """Make a cache with a complete source, an incomplete one, and things that are not ours."""
    whole = root / ONE
    whole.mkdir(parents=True)
    (whole / "model.gguf").write_bytes(b"x" * 10)
    write(whole, Manifest("https://example.com/one", ONE, (Choice((Kept("model.gguf", 10, "0" * 64),)),)))
    (root / OTHER).mkdir()
    (root / OTHER / "model.gguf.partial").write_bytes(b"x" * 3)
    (root / OTHER / "link").symlink_to(whole / "model.gguf")
    (root / "lost+found").mkdir()
    (root / ("g" * len(ONE))).mkdir()
    return root


def test_each_folder_of_a_source_is_listed_with_its_files(tmp_path: Path) -> None:
    first, second = sorted(scan(fill(tmp_path)), key=lambda folder: folder.key != ONE)
    assert (first.key, first.source, first.count) == (ONE, "https://example.com/one", 2)
    assert set(first.files) == {"model.gguf", "manifest.json"}
    assert second == Folder(OTHER, 3, "", ("model.gguf.partial",), 1)


def test_only_what_is_named_is_removed(tmp_path: Path) -> None:
    fill(tmp_path)
    assert [folder.key for folder in remove(tmp_path, [OTHER, "lost+found", "..", cache_key("none")])] == [OTHER]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([ONE, "lost+found", "g" * len(ONE)])
    assert (tmp_path / ONE / "model.gguf").exists()


def test_a_link_in_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "cache"
    root.mkdir()
    (root / ONE).symlink_to(outside)
    assert scan(root) == remove(root, [ONE]) == []
    assert outside.exists()


def test_a_cache_that_was_never_used_is_empty(tmp_path: Path) -> None:
    assert scan(tmp_path / "none") == []
