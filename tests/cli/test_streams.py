"""Output of which nothing reads the end, or that has no room."""

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


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "at once"])
def test_output_without_room_is_one_line(unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "modelyard", "version"],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1,
        "modelyard: standard output cannot be written: No space left on device\n",
    )
