"""`modelyard get`: the objects of all kinds with what their status says, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.cluster.listing import Listed, list_objects
from modelyard.cluster.output import Output, age, encoded, table
from modelyard.cluster.rows import Row, row
from modelyard.cluster.session import for_each
from modelyard.core.names import short
from modelyard.core.resources import Key
from modelyard.runtime.cache import OwnerKey

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from modelyard.cluster.figures import Figures
    from modelyard.cluster.session import Session
    from modelyard.core.resources import Resource

TITLES: Final = ("TOKENS/S", "FIRST", "RUNNING", "WAITING", "KV")
"""The columns of the figures, in their order."""


class Rows(Struct, frozen=True):
    """What `modelyard get -o json` prints."""

    items: tuple[Row, ...]


async def get_rows(
    session: Session, resources: Sequence[Resource], names: Sequence[str], *, everywhere: bool, selector: str
) -> tuple[Rows, tuple[str, ...]]:
    """Return the rows of the objects that a command line means, sorted, and a line for each kind that is left out."""
    if names:
        (resource,) = resources
        found = await for_each(lambda name: session.get(resource, Key(session.namespace, name)), names)
        listed = Listed(tuple(found))
    else:
        namespace = "" if everywhere else session.namespace
        listed = await list_objects(session, resources, namespace, selector)
    rows = sorted(map(row, listed.items), key=lambda each: (each.kind, each.namespace, each.name))
    return Rows(tuple(rows)), listed.missing


async def get_figures(session: Session, rows: Rows) -> Figures:
    """Return the figures of the objects of some rows; those that have none, or cannot be read, are left out."""
    # Only a wide table shows them, and what reads them takes longer to load than a cluster takes to list its objects.
    from modelyard.cluster.figures import read_figures  # noqa: PLC0415

    places = {each.namespace for each in rows.items}
    return await read_figures(session, places.pop() if len(places) == 1 else "", {_owner(each) for each in rows.items})


def printed(rows: Rows, output: Output, now: datetime, *, everywhere: bool, figures: Figures) -> str:
    """Return rows as `get` prints them; empty: a table without rows. A wide one has the figures, if there are any."""
    if output.is_for_programs:
        return encoded(rows, output)
    is_wide = output is Output.WIDE
    titles = ("KIND", *(["NAMESPACE"] if everywhere else []), "NAME", "PHASE", "READY", "REASON", "URL")
    more = (*(TITLES if figures else ()), "AGE", "MESSAGE") if is_wide else ()
    lines = [
        (*_cells(each, everywhere=everywhere), *(_wide_cells(each, now, figures) if is_wide else ()))
        for each in rows.items
    ]
    return table((*titles, *more), lines) if lines else ""


def _cells(each: Row, *, everywhere: bool) -> tuple[str, ...]:
    place = (each.namespace,) if everywhere else ()
    return (each.kind, *place, each.name, each.phase, each.count, each.reason, each.url)


def _wide_cells(each: Row, now: datetime, figures: Figures) -> tuple[str, ...]:
    measured = figures.get(_owner(each), ("",) * len(TITLES)) if figures else ()
    return (*measured, age(each.created, now), each.message)


def _owner(each: Row) -> OwnerKey:
    return OwnerKey(each.kind.lower(), each.namespace, short(each.name))
