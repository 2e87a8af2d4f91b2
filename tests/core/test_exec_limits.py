"""How long a variable may be is measured by a real exec, which the kernel refuses one byte later."""

from __future__ import annotations

import subprocess
import sys

from modelyard.core.exec_limits import LONGEST, find_problem, fits

_ROOM = LONGEST - len("V=") - 1
"""What is left for the value; a byte ends it."""


def starts(value: str) -> bool:
    try:
        return subprocess.run([sys.executable, "-IS", "-c", ""], env={"V": value}, check=False).returncode == 0
    except OSError:
        return False


def test_the_limit_is_that_of_the_kernel() -> None:
    for value in ("x" * _ROOM, "x" * (_ROOM + 1)):
        assert fits("V", value) == starts(value)


def test_what_the_kubelet_makes_shorter_counts_as_such() -> None:
    assert fits("V", "$$" * _ROOM)
    assert not fits("V", "é" * (_ROOM // 2 + 1))


def test_a_variable_without_a_name_is_left_to_the_api_server() -> None:
    container = {"name": "server", "env": [{"value": "nameless"}]}
    assert find_problem({"spec": {"template": {"spec": {"containers": [container]}}}}) is None
