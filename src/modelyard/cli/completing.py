"""What a shell offers while a command line is typed: kinds, and the names of objects and namespaces of the cluster.

Where the cluster cannot be asked within a moment, nothing is offered. Nothing is said either: a shell would print it
into the line that is being typed.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer  # noqa: TC002 - typer reads the types when it runs

from modelyard.cli.place import chosen_place
from modelyard.cluster.kind_names import ANSWERING, KNOWN, UnknownKind, find_kind, find_kinds
from modelyard.cluster.listing import list_objects
from modelyard.cluster.session import connected
from modelyard.core.resources import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.cluster.session import Place
    from modelyard.core.resources import Resource

_SECONDS: Final = 2.0
_TALKING: Final = tuple(map(find_kind, ANSWERING))


def complete_namespace(context: typer.Context, incomplete: str) -> list[str]:
    """Return the namespaces that begin with a word."""
    return _names(context, (NAMESPACE,), incomplete)


def complete_kind(context: typer.Context, incomplete: str) -> list[str]:
    """Return the plurals of kinds that begin with a word; after a slash, the objects of the kind."""
    if "/" in incomplete:
        return complete_target(context, incomplete)
    return [name for name in KNOWN if name.startswith(incomplete)]


def complete_name(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of objects, of the kind that the command line names before, that begin with a word."""
    return _of_kind(context, str(context.params.get("kind") or ""), incomplete)


def complete_target(context: typer.Context, incomplete: str) -> list[str]:
    """Return the objects KIND/NAME that begin with a word; before the slash, the kinds."""
    kind, slash, start = incomplete.partition("/")
    if not slash:
        kinds = (one.kind.lower() for one in find_kinds(""))
        return [f"{name}/" for name in kinds if name.startswith(incomplete)]
    return [f"{kind}/{name}" for name in _of_kind(context, kind, start)]


def complete_talking(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of objects that answer questions, that begin with a word; with a slash, KIND/NAME."""
    if "/" in incomplete:
        return complete_target(context, incomplete)
    return _names(context, _TALKING, incomplete)


def _of_kind(context: typer.Context, kind: str, start: str) -> list[str]:
    with suppress(UnknownKind):
        return _names(context, find_kinds(kind), start)
    return []


def _names(context: typer.Context, resources: Iterable[Resource], start: str) -> list[str]:
    # Whatever goes wrong, the user is in the middle of a line.
    with suppress(Exception):
        return [name for name in asyncio.run(_listed(_place(context), tuple(resources))) if name.startswith(start)]
    return []


def _place(context: typer.Context) -> Place:
    given = context.params
    return chosen_place(given.get("kubeconfig"), given.get("context") or "", given.get("namespace") or "")


async def _listed(place: Place, resources: tuple[Resource, ...]) -> list[str]:
    async with asyncio.timeout(_SECONDS), connected(place, os.environ) as session:
        within = session.namespace if all(resource.namespaced for resource in resources) else ""
        listed = await list_objects(session, resources, within)
        return sorted({item.meta.name for item in listed.items})
