"""Ctrl-C before anything has started."""

from __future__ import annotations

import subprocess
import sys

# Loading takes most of a second; this presses Ctrl-C in the middle of it.
_WHILE_IT_LOADS = """
import os, signal, sys

class Press:
    def find_spec(self, name, *rest):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
from modelyard.cli.main import main
main()
"""


def test_ctrl_c_while_the_program_loads_is_one_line_and_no_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", _WHILE_IT_LOADS], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "modelyard: stopped\n")
