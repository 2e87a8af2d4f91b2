"""What a host was asked to serve, on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelyard.host.wanted import Wanted, WantedFile
from modelyard.host.wire import LoadRequest, Options

if TYPE_CHECKING:
    from pathlib import Path

ASKED = (
    Wanted(
        LoadRequest("org/repo", "v2", Options("mlx", 4096, 2), "team/model", "4Gi", "high", eviction_protection=True)
    ),
    Wanted(LoadRequest("hf://org/other/m.gguf"), need=5),
)


def test_what_was_asked_for_is_read_back_in_its_order(tmp_path: Path) -> None:
    file = WantedFile(tmp_path / "models.json")
    assert file.read() == ()
    file.write(ASKED)
    assert file.read() == ASKED
    assert (tmp_path / "models.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text",
    [
        b"[{",
        b'[{"request": {"model": "\xff"}}]',
        b'[{"request": {"model": "hf://"}}]',
        b'[{"request": {"model": "pvc://claim/m.gguf"}}]',
        b'[{"request": {"model": "org/repo", "memory": "much"}}]',
    ],
)
def test_a_damaged_file_is_set_aside_and_stops_nothing(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "models.json").write_bytes(text)
    assert WantedFile(tmp_path / "models.json").read() == ()
    assert [each.name for each in tmp_path.iterdir()] == ["models.damaged"]
    assert (tmp_path / "models.damaged").read_bytes() == text
