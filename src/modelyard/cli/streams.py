"""The standard streams of `modelyard`: there may be none, and its output may have no reader or no room."""

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
    """Write what is left of the output. Exit without a word where nothing reads it, and with a line without room."""
    try:
        out.flush()
    except BrokenPipeError:
        discard(out)
        sys.exit(NO_READER)
    except OSError as error:
        discard(out)
        sys.exit(f"modelyard: {cannot_write(error)}")


def discard(out: TextIO) -> None:
    """Drop what is left of the output: the interpreter writes it once more at its end, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def cannot_write(error: OSError) -> str:
    """Return what a user is told of a file, or of the standard output, that has no room."""
    return f"{error.filename or 'standard output'} cannot be written: {error.strerror}"
