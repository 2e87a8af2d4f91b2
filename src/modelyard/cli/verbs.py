"""All verbs of `modelyard`. Loading this loads everything."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Final

import typer
from typer.completion import shell_complete

from modelyard import __version__
from modelyard.cli.ask import ask
from modelyard.cli.cache import app as cache
from modelyard.cli.cache import scan_cache
from modelyard.cli.crds import crds
from modelyard.cli.doctor import doctor
from modelyard.cli.explain import explain
from modelyard.cli.fetch import fetch
from modelyard.cli.get import get
from modelyard.cli.host import app as host
from modelyard.cli.install import install, uninstall
from modelyard.cli.page import page
from modelyard.cli.plan import plan
from modelyard.cli.queue import queue
from modelyard.cli.run import run
from modelyard.cli.up import apply, down, logs, status, up, weights

PROGRAM: Final = "modelyard"
COMPLETE: Final = "_MODELYARD_COMPLETE"
"""The variable of the environment by which a shell asks for completions."""


class Shell(StrEnum):
    """The shells that can complete words."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


app = typer.Typer(
    help="One Kubernetes operator for the whole self-hosted inference stack.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(up)
app.command()(apply)
app.command()(down)
app.command()(status)
app.command()(logs)
app.command()(weights)
app.command()(get)
app.command()(explain)
app.command()(ask)
app.command()(queue)
app.command()(doctor)
app.add_typer(cache, name="cache")
app.command(hidden=True)(scan_cache)
app.command()(install)
app.command()(uninstall)
app.command()(page)
app.add_typer(host, name="host")
app.command()(run)
app.command()(plan)
app.command()(crds)
app.command()(fetch)


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(help="The shell that is to complete words.")]) -> None:
    """Print the script that makes a shell complete the words of `modelyard`."""
    shell_complete(typer.main.get_command(app), {}, PROGRAM, COMPLETE, f"source_{shell}")


@app.command()
def version() -> None:
    """Print the version."""
    sys.stdout.write(f"{__version__}\n")
