"""`modelyard up`, `apply`, `down`, `status`, `logs` and `weights`: one-machine mode.

Only these verbs need the packages of the extra `local`, so nothing of it is imported before one of them is used.
"""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modelyard.cli import policy
from modelyard.core.errors import ModelyardError
from modelyard.core.quantities import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType


class Output(StrEnum):
    """The forms of `modelyard status`."""

    TABLE = "table"
    JSON = "json"


Dir = Annotated[
    Path | None,
    typer.Option("--dir", help="Where state is kept. Left out: a folder in the user's data folder."),
]


def up(
    file: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", help="Manifests to apply: a file, a folder, or - for standard input. Repeatable."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Serve this: a GGUF file, a URL, org/repo, hf:// or s3://. Repeatable.")
    ] = None,
    folder: Dir = None,
    detach: Annotated[bool, typer.Option("--detach", help="Go on in the background once all is settled.")] = False,
    images: Annotated[
        Path | None, typer.Option(help="A file that says which programs stand in for images; it is remembered.")
    ] = None,
    door_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="The port of the one address for all models. Left out: as last time, or 11400."
        ),
    ] = None,
    host_networks: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CIDR",
            help="Use InferenceHosts of this network, such as 192.168.1.0/24. Repeatable. Left out: of none.",
        ),
    ] = None,
    timeout: Annotated[str, typer.Option(help="With --detach: wait no longer than this, such as 90s or 10m.")] = "",
    handed_over: Annotated[Path | None, typer.Option(hidden=True, help="Used by --detach itself.")] = None,
) -> None:
    """Serve models on this machine: a real Kubernetes API, and pods as processes. Ctrl-C stops it."""
    commands, patience = _commands(), _patience(timeout, detached=detach)
    commands.up(
        commands.UpOptions(
            files=tuple(file or ()),
            models=tuple(model or ()),
            folder=folder,
            images=images,
            door_port=door_port,
            host_networks=_networks(host_networks or ()),
            detached=detach,
            patience=patience,
            handed_over=handed_over,
        )
    )


def apply(
    file: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", help="Manifests: a file, a folder, or - for standard input. Repeatable."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Serve this: a GGUF file, a URL, org/repo, hf:// or s3://. Repeatable.")
    ] = None,
    folder: Dir = None,
) -> None:
    """Apply manifests to what `modelyard up` runs on this machine."""
    _commands().apply(file or (), model or (), folder)


def down(
    folder: Dir = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove all state as well: objects, weights and logs.")
    ] = False,
) -> None:
    """Stop what `modelyard up` has started. Objects and weights are kept for the next start."""
    _commands().down(folder, purge=purge)


def status(
    folder: Dir = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on, and show every change.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="A table, or JSON for programs.")] = Output.TABLE,
) -> None:
    """Show what runs on this machine, and where it answers."""
    _commands().status(folder, watch=watch, as_json=output is Output.JSON)


def weights(
    folder: Dir = None,
    prune: Annotated[bool, typer.Option("--prune", help="Remove those of deleted Models.")] = False,
) -> None:
    """List the weights on this machine with their sizes. Those of deleted Models are kept until `--prune`."""
    _commands().weights(folder, prune=prune)


def logs(
    name: Annotated[str, typer.Argument(help="A service, a model, an MCP server, or a part such as operator.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on while more is written.")] = False,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of what has ended: earlier runs, and pods that are deleted.")
    ] = False,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where it is.")] = "default",
    folder: Dir = None,
) -> None:
    """Show what the pods of an object have written, or what a part of Modelyard itself has."""
    _commands().logs(name, namespace, folder, follow=follow, previous=previous)


def _patience(timeout: str, *, detached: bool) -> float:
    if timeout and not detached:
        raise typer.BadParameter("--timeout says how long to wait before going into the background; add --detach")
    try:
        return seconds(timeout) if timeout else math.inf
    except ValueError as error:
        raise typer.BadParameter(f"--timeout: {error}") from error


def _networks(asked: Iterable[str]) -> tuple[str, ...]:
    try:
        return policy.hosts(",".join(asked))
    except ValueError as error:
        raise typer.BadParameter(f"--host-networks: {error}") from error


def _commands() -> ModuleType:
    try:
        from modelyard.local.up import commands  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        raise ModelyardError(f"{error.name} is not installed; pip install 'modelyard[local,fetch]'") from error
    return commands
