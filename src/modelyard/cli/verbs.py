"""All verbs of `modelyard` by name. What a verb needs is imported when it is used.

Otherwise each call would take most of a second, of which nearly all is spent on what other verbs need, and a pod that
only fetches weights would load the operator.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from modelyard import __version__
from modelyard.cli.streams import NO_READER

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM: Final = "modelyard"
COMPLETE: Final = "_MODELYARD_COMPLETE"
"""The variable of the environment by which a shell asks for completions."""

_HIDDEN: Final = frozenset({"scan-cache"})
_VERBS: Final = {
    "up": ("up:up", "Serve models on this machine: a real Kubernetes API, and pods as processes. Ctrl-C stops it."),
    "apply": ("up:apply", "Apply manifests to what `modelyard up` runs on this machine."),
    "down": ("up:down", "Stop what `modelyard up` has started. Objects and weights are kept for the next start."),
    "status": ("up:status", "Show what runs on this machine, and where it answers."),
    "logs": ("up:logs", "Show what the pods of an object have written, or what a part of Modelyard itself has."),
    "weights": (
        "up:weights",
        "List the weights on this machine with their sizes. Those of deleted Models are kept until `--prune`.",
    ),
    "get": ("get:get", "List objects of all kinds: phase, ready, reason and URL."),
    "explain": (
        "explain:explain",
        "Say why an object is not ready: conditions, pods, events, logs of what failed, and the next command.",
    ),
    "ask": ("ask:ask", "Ask a model of the cluster a question; the answer is streamed, and its speed is told."),
    "queue": (
        "queue:queue",
        "Show who waits for GPUs, in their order, and who holds them. Without a namespace: in all of them.",
    ),
    "doctor": (
        "doctor:doctor",
        "Check a cluster: versions, definitions, operators, rights, storage, GPUs, and APIs that some features need.",
    ),
    "cache": ("cache:app", "Show which weights are on which claim, how big they are, and what uses them."),
    "scan-cache": (
        "scan_cache:scan_cache",
        "Print the folders of a cache as JSON, or those that were removed. What `modelyard cache` runs in its pod.",
    ),
    "install": (
        "install:install",
        "Install the operator of this version on a cluster, or upgrade to it. Objects and weights stay.",
    ),
    "uninstall": (
        "install:uninstall",
        "Remove the operator from a cluster. Definitions, objects, weights and what runs stay, unless named.",
    ),
    "page": (
        "page:page",
        "Show everything in a browser: states, causes, logs, cold starts, and a chat with each model. Ctrl-C ends it.",
    ),
    "host": ("host:app", "Serve models on this machine for a cluster that it is not a node of. SIGTERM drains it."),
    "run": ("run:run", "Run the operator. The cluster is taken from KUBECONFIG, or is the one this runs in."),
    "plan": (
        "plan:plan",
        "Print the objects that manifests would create. References are looked up among the same manifests.",
    ),
    "crds": ("crds:crds", "Print the CustomResourceDefinitions of all kinds as YAML."),
    "fetch": (
        "fetch:fetch",
        "Fetch weights into a folder: resumed, verified, and whole or not there. Credentials come by environment.",
    ),
    "completion": ("completion:completion", "Print the script that makes a shell complete the words of `modelyard`."),
    "version": ("verbs:version", "Print the version."),
}
"""By name: where it is in this package, and the first paragraph of its help, which a test compares."""


class Verb(TyperCommand):
    """A verb that is listed by its name and help alone, and imported when its arguments are to be parsed."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the real command, so that it is the one that parses, completes, helps and runs."""
        return command(str(self.name)).make_context(info_name, args, parent, **extra)


def command(name: str) -> Any:
    """Return the command of a verb, with its options and its work."""
    module, _, attribute = _VERBS[name][0].partition(":")
    found = getattr(import_module(f"modelyard.cli.{module}"), attribute)
    return typer.main.get_command(found if isinstance(found, typer.Typer) else _alone(found))


def _alone(verb: Callable[..., Any]) -> typer.Typer:
    own = typer.Typer(add_completion=False)
    own.command()(verb)
    return own


class _Verbs(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        listed = {
            name: Verb(name, callback=None, help=text, hidden=name in _HIDDEN) for name, (_, text) in _VERBS.items()
        }
        super().__init__(**{**settings, "commands": listed})

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader has seen enough, as in `modelyard get -A | head`.
            raise typer.Exit(NO_READER) from None


app = typer.Typer(
    cls=_Verbs,
    help="One Kubernetes operator for the whole self-hosted inference stack.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        version()
        raise typer.Exit


@app.callback()
def _modelyard(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def version() -> None:
    """Print the version."""
    sys.stdout.write(f"{__version__}\n")
