"""Paths of a container are replaced where they are paths, and nowhere else."""

from __future__ import annotations

import pytest

from modelyard.local.node.process.path_mapping import Mapped, Paths

PATHS = Paths([Mapped("/models", "/state/m"), Mapped("/models/cache/", "/state/c"), Mapped("/", "/never")])


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("/models", "/state/m"),
        ("/models/a.gguf", "/state/m/a.gguf"),
        ("--model=/models/a.gguf", "--model=/state/m/a.gguf"),
        ("/models/cache/x", "/state/c/x"),
        ("cp /models/a '/models/b' > /models/c; ls", "cp /state/m/a '/state/m/b' > /state/m/c; ls"),
        ('{"path": "/models/a"}', '{"path": "/state/m/a"}'),
        ("file:///models/a", "file:///state/m/a"),
        ("/models:/models/cache", "/state/m:/state/c"),
        ("/modelsX", "/modelsX"),
        ("/models.bak", "/models.bak"),
        ("/other/models/a", "/other/models/a"),
        ("http://host/models/a", "http://host/models/a"),
        ("http://host:80/models/a", "http://host:80/models/a"),
        ("s3://models/a", "s3://models/a"),
        ("./models", "./models"),
        ("", ""),
    ],
)
def test_a_path_is_replaced_where_it_begins_a_word(text: str, local: str) -> None:
    assert PATHS.local(text) == local


def test_a_path_that_is_not_mounted_is_nowhere() -> None:
    assert PATHS.outside("/app") is None
    assert PATHS.outside("/models/sub") == "/state/m/sub"


def test_without_mounts_nothing_is_replaced() -> None:
    assert Paths().local("/models/a") == "/models/a"
