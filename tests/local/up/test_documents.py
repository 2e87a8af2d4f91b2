"""The manifests that a user names are found where kubectl would find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelyard.local.up.documents import read_files
from modelyard.manifests.documents import BadManifest

if TYPE_CHECKING:
    from pathlib import Path

NOTE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"


def _names(*given: str) -> list[str]:
    return [document.body["metadata"]["name"] for document in read_files(given)]


def test_of_a_folder_all_manifests_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml"):
        (tmp_path / name).write_text(NOTE % name[0])
    (tmp_path / "c.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}')
    (tmp_path / "README.md").write_text("no manifest: [")
    (tmp_path / "deeper").mkdir()
    assert _names(str(tmp_path)) == ["a", "b", "c"]


def test_a_folder_without_manifests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadManifest, match=r"holds no file that ends in \.json, \.yaml, \.yml; check the path after -f"):
        read_files([str(tmp_path)])


def test_a_url_is_not_taken_for_a_path() -> None:
    with pytest.raises(BadManifest, match=r"https://example\.com/a\.yaml is a URL, which is not read; pipe it in"):
        read_files(["https://example.com/a.yaml"])


def test_a_path_may_begin_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.yaml").write_text(NOTE % "a")
    assert _names("~/a.yaml") == ["a"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~draft.yaml").write_text(NOTE % "draft")
    assert _names("~draft.yaml") == ["draft"]
