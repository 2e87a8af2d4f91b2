"""Run a verb as `main` does, in this process, and read the examples of its page."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import structlog
from typer.testing import CliRunner

from modelyard.cli.verbs import app
from modelyard.core.errors import ModelyardError

PAGES = Path(__file__).parents[2] / "docs" / "cli"
_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Ran(NamedTuple):
    """How a verb ended, and what it printed."""

    code: int
    out: str
    err: str


class Example(NamedTuple):
    """A command of a page, and what the page says that it prints."""

    words: list[str]
    out: str


async def run(*words: str, kubeconfig: Path | None, text: str | None = None) -> Ran:
    """Run `modelyard` with these words as the user of a kubeconfig; None: a user who has none."""
    return await asyncio.to_thread(invoke, *words, kubeconfig=kubeconfig, text=text)


def invoke(*words: str, kubeconfig: Path | None, text: str | None = None) -> Ran:
    """Run `modelyard` where no event loop runs yet."""
    environ = {"KUBECONFIG": str(kubeconfig) if kubeconfig else None, "HOME": "/nonexistent"}
    done = CliRunner().invoke(app, words, env=environ, input=text)
    # A server's verb sets up logs, at its level and to the stream of this run: other tests read theirs.
    structlog.reset_defaults()
    if isinstance(done.exception, ModelyardError):
        return Ran(done.exception.exit_code, done.stdout, f"{done.stderr}{done.exception}\n")
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ran(done.exit_code, done.stdout, done.stderr)


def examples(page: str) -> list[Example]:
    """Return the commands of a page in docs/cli that begin with `modelyard`, each with the lines below it."""
    blocks = (match[1] for match in _CONSOLE.finditer((PAGES / page).read_text()))
    commands = [part.partition("\n") for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    parted = [(shlex.split(command), out) for command, _, out in commands]
    return [Example(words[1:], out) for words, out in parted if words[0] == "modelyard"]
