"""Run a Python module that ends when its parent does: `python -m modelyard.local.lifeline MODULE ARGUMENTS...`.

The other half of `modelyard.local.program`, for programs that do not look at their lifeline by themselves.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from threading import Thread

from modelyard.local.program import LIFELINE


def hold(descriptor: int) -> None:
    """End this process when nobody holds the other end of the pipe any more."""

    def wait() -> None:
        while os.read(descriptor, 1):
            pass
        # Not sys.exit: a thread cannot end its process, and whoever could be asked politely may hang.
        os.kill(os.getpid(), signal.SIGKILL)

    Thread(target=wait, name="lifeline", daemon=True).start()


def main() -> None:
    """Hold the lifeline, and become the module."""
    descriptor = os.environ.pop(LIFELINE, "")
    if descriptor:
        hold(int(descriptor))
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
