"""The entry point of `modelyard`, for the console script and `python -m modelyard`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Final, NoReturn

from modelyard.core.errors import ModelyardError

_INTERRUPTED: Final = 130
_NO_FILES: Final = 4
"""Tells kubectl not to offer names of files, which is ShellCompDirectiveNoFileComp of its library."""


def main() -> None:
    """Run the command line; what we refuse on purpose, and Ctrl-C, are one line and not a traceback."""
    _open_streams()
    try:
        from modelyard.cli.verbs import app  # noqa: PLC0415 - it takes most of a second, and Ctrl-C may come in it

        app()
    except ModelyardError as error:
        _leave(str(error), error.exit_code)
    except KeyboardInterrupt:
        _leave("stopped", _INTERRUPTED)


def complete_for_kubectl() -> None:
    """Print the words that may follow `kubectl modelyard ...`: the program that kubectl asks when a shell completes."""
    from modelyard.cli.verbs import COMPLETE, PROGRAM, app  # noqa: PLC0415 - as above

    words = [PROGRAM, *sys.argv[1:]]
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), COMPLETE: "complete_bash"}
    os.environ.update(asked)
    with suppress(SystemExit):
        app(prog_name=PROGRAM)
    sys.stdout.write(f":{_NO_FILES}\n")


def _open_streams() -> None:
    """Give a program that was started without standard streams some that lead nowhere.

    Otherwise there is nothing to write to, and the next files that are opened take the numbers of the streams.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It gets the lowest number that is free, which is that of the stream.
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))


def _leave(words: str, code: int) -> NoReturn:
    sys.stderr.write(f"modelyard: {words}\n")
    sys.exit(code)
