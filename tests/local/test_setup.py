"""`make` in a new clone is never silent for long: the first run installs for a minute."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tools.setup import install_locked

PIP = """
import time
for number in range(4):
    print(f"Collecting package-{number}", flush=True)
    time.sleep(0.05)
print("Installing collected packages: all", flush=True)
"""


def test_an_installation_tells_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    install_locked([sys.executable, "-c", PIP], every_seconds=0.01)
    first, *middle, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"setup: installing \d+ locked packages, which takes a minute or so", first)
    assert any(line.startswith("setup: 3 of ") for line in middle)
    assert last.endswith(" packages are here; unpacking them")


def test_an_installation_that_fails_is_not_taken_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        install_locked([sys.executable, "-c", "raise SystemExit(2)"])
    assert "unpacking" not in capsys.readouterr().err
