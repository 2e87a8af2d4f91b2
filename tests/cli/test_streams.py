"""Output of which nothing reads the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("words", "unbuffered"), [("version", ""), ("crds", "1")], ids=["all of it at the end", "in the middle"]
)
def test_a_verb_whose_reader_has_gone_ends_without_a_word(words: str, unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "modelyard", words],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=writer, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
