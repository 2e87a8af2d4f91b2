"""The log of what serves never stops it."""

from __future__ import annotations

from pathlib import Path

from modelyard.local.up.log_file import LogFile


def test_on_a_full_disk_lines_are_lost_and_nobody_is_told() -> None:
    full = LogFile(Path("/dev/full"))
    assert full.write("the API server cannot be followed\n") == 34
    full.flush()


def test_lines_are_added_at_once_and_for_our_eyes_only(tmp_path: Path) -> None:
    file = tmp_path / "node.log"
    LogFile(file).write("one\n")
    LogFile(file).write("two\n")
    assert file.read_text() == "one\ntwo\n"
    assert file.stat().st_mode & 0o777 == 0o600
