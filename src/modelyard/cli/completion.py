"""`modelyard completion`: the script by which a shell asks `modelyard` which words may follow."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import shell_complete

from modelyard.cli.verbs import COMPLETE, PROGRAM, app


class Shell(StrEnum):
    """The shells that can complete words."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell that is to complete words.")]) -> None:
    """Print the script that makes a shell complete the words of `modelyard`."""
    shell_complete(typer.main.get_command(app), {}, PROGRAM, COMPLETE, f"source_{shell}")
