"""The entry point of `modelyard`, for the console script and `python -m modelyard`."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import Final, NoReturn

from modelyard.cli.streams import cannot_write, discard, flush, open_streams
from modelyard.core.errors import ModelyardError

_REFUSED: Final = 1
_INTERRUPTED: Final = 130
_NO_FILES: Final = 4
"""Tells kubectl not to offer names of files, which is ShellCompDirectiveNoFileComp of its library."""


def main() -> None:
    """Run the command line; what we refuse on purpose, and Ctrl-C, are one line and not a traceback."""
    open_streams()
    out = sys.stdout
    try:
        from modelyard.cli.verbs import app  # noqa: PLC0415 - Ctrl-C may come while it loads

        app()
    except ModelyardError as error:
        _leave(str(error), error.exit_code)
    except KeyboardInterrupt:
        _leave("stopped", _INTERRUPTED)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        discard(out)
        _leave(cannot_write(error), _REFUSED)
    finally:
        flush(out)


def complete_for_kubectl() -> None:
    """Print the words that may follow `kubectl modelyard ...`: the program that kubectl asks when a shell completes."""
    from modelyard.cli.verbs import COMPLETE, PROGRAM, app  # noqa: PLC0415 - as above

    words = [PROGRAM, *sys.argv[1:]]
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), COMPLETE: "complete_bash"}
    os.environ.update(asked)
    with suppress(SystemExit):
        app(prog_name=PROGRAM)
    sys.stdout.write(f":{_NO_FILES}\n")


def _leave(words: str, code: int) -> NoReturn:
    sys.stderr.write(f"modelyard: {words}\n")
    sys.exit(code)
