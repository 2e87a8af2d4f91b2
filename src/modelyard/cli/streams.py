"""The standard streams of `modelyard`: there may be none, and the reader of its output may go before the end."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

NO_READER: Final = 141
"""As of programs that SIGPIPE ends. We ignore that signal: it would also end us when a server hangs up."""


def open_streams() -> None:
    """Give a program that was started without standard streams some that lead nowhere.

    Otherwise there is nothing to write to, and the next files that are opened take the numbers of the streams.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It gets the lowest number that is free, which is that of the stream.
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))


def flush(out: TextIO) -> None:
    """Write what is left of the output. Where nothing reads it any more, exit without a word."""
    try:
        out.flush()
    except BrokenPipeError:
        # The interpreter writes what is left once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        sys.exit(NO_READER)
