"""Run a Python module that ends when its parent does: `python -m modelyard.local.lifeline MODULE ARGUMENTS...`.

The other half of `program`, for Python modules that do not watch their lifeline themselves. `up.machine` starts the
operator with it.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from threading import Thread

from modelyard.local.program import LIFELINE


def hold(descriptor: int) -> None:
    """Kill this process when the parent, which holds the other end of the pipe, has ended."""

    def wait() -> None:
        while os.read(descriptor, 1):
            pass
        # Not sys.exit, which would end this thread only, nor SIGTERM, whose handler may wait for a thread that hangs.
        os.kill(os.getpid(), signal.SIGKILL)

    Thread(target=wait, name="lifeline", daemon=True).start()


def main() -> None:
    """Watch the lifeline, and run the module that the arguments name."""
    descriptor = os.environ.pop(LIFELINE, "")
    if descriptor:
        hold(int(descriptor))
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
