"""`modelyard completion`: the script by which a shell asks `modelyard` which words may follow."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from enum import StrEnum
from typing import Annotated, Final

import typer
from typer.completion import shell_complete

from modelyard.cli.verbs import COMPLETE, PROGRAM, app


class Shell(StrEnum):
    """The shells that can complete words."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_FIRST_TAB: Final = f"""\

# In a folder of fpath this file is the body of a function, which the first Tab calls.
[[ $funcstack[1] != _{PROGRAM} ]] || _{PROGRAM}_completion
"""


def completion(shell: Annotated[Shell, typer.Argument(help="The shell that is to complete words.")]) -> None:
    """Print the script that makes a shell complete the words of `modelyard`."""
    with redirect_stdout(io.StringIO()) as script:
        shell_complete(typer.main.get_command(app), {}, PROGRAM, COMPLETE, f"source_{shell}")
    # zsh looks for the name of the command in the first line: nothing may stand above it.
    sys.stdout.write(f"{script.getvalue().strip()}\n{_FIRST_TAB if shell is Shell.ZSH else ''}")
