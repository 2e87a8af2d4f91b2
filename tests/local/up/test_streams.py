"""Started without standard streams, as some daemons start others."""

from __future__ import annotations

import subprocess
import sys


def test_a_program_without_standard_streams_does_its_work() -> None:
    words = [sys.executable, "-m", "modelyard", "version"]
    ended = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], check=False)
    assert ended.returncode == 0
