"""What all verbs for clusters share: the flags of kubectl that say which cluster, `-o`, and the way there."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from modelyard.cli.completing import complete_namespace
from modelyard.cluster.failures import NoCluster
from modelyard.cluster.output import Output
from modelyard.cluster.session import connected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from modelyard.cluster.session import Place, Session

T = TypeVar("T")

Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="The kubeconfig to use. Left out: as kubectl, else that of `modelyard up`."),
]
Context = Annotated[str, typer.Option("--context", help="The context of the kubeconfig. Left out: the current one.")]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        help="The namespace to look at. Left out: that of the context.",
        autocompletion=complete_namespace,
    ),
]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look at all namespaces.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before something is deleted for good.")]
Form = Annotated[Output, typer.Option("--output", "-o", help="A table, a wide one, or JSON or YAML for programs.")]


def on_cluster(place: Place, work: Callable[[Session], Awaitable[T]]) -> T:
    """Return what some work returns that is done with a session of the user's cluster."""

    async def connect_and_work() -> T:
        async with connected(place, os.environ) as session:
            return await work(session)

    try:
        return asyncio.run(connect_and_work())
    except NoCluster as error:
        from modelyard.cli.one_machine import advice  # noqa: PLC0415 - clusters need nothing of it

        if hint := advice(place.kubeconfig):
            raise NoCluster(f"{error}; {hint}") from error
        raise


def say(text: str) -> None:
    """Print a result, before any remark about it."""
    sys.stdout.write(text)
    sys.stdout.flush()


def remark(line: str) -> None:
    """Print what a person should know besides the result, where no program reads it."""
    sys.stderr.write(f"{line}\n")


def agree(lines: Sequence[str], *, yes: bool) -> None:
    """Name what is about to be deleted for good, and ask. Nothing to delete: do not ask; a no ends the program."""
    if not lines:
        return
    for line in lines:
        remark(f"  {line}")
    if not yes:
        typer.confirm(f"Delete these {len(lines)} for good?", abort=True, err=True)
