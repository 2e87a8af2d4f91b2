"""The log of what serves never stops it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from modelyard.local.up.log_file import open_log


def test_on_a_full_disk_lines_are_lost_and_nothing_else() -> None:
    full = open_log(Path("/dev/full"))
    assert full.write("the API server cannot be followed\n") == 34
    full.flush()


def test_lines_are_added_at_once_and_for_our_eyes_only(tmp_path: Path) -> None:
    file = tmp_path / "node.log"
    open_log(file).write("one\n")
    open_log(file).write("two\n")
    assert file.read_text() == "one\ntwo\n"
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_operator_outlives_a_log_on_a_full_disk() -> None:
    program = (
        "import structlog; from modelyard.cli.logging_setup import configure_logging as c; c('info', 'json')\n"
        "structlog.get_logger().warning('the API server cannot be followed')"
    )
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run([sys.executable, "-c", program], stderr=full, check=False, timeout=60)
    assert ended.returncode == 0
