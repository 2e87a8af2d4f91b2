"""`modelyard`: the program."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

from modelyard.core.errors import ModelyardError

_REFUSED: Final = 1
_INTERRUPTED: Final = 130


def main() -> None:
    """Run the command line; what we refuse on purpose, and Ctrl-C, are one line and not a traceback."""
    try:
        from modelyard.cli.verbs import app  # noqa: PLC0415 - it takes most of a second, and Ctrl-C may come in it

        app()
    except ModelyardError as error:
        _leave(str(error), _REFUSED)
    except KeyboardInterrupt:
        _leave("stopped", _INTERRUPTED)


def _leave(words: str, code: int) -> NoReturn:
    sys.stderr.write(f"modelyard: {words}\n")
    sys.exit(code)
