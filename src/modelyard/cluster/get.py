"""`modelyard get`: the objects of all kinds with what their status says, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.cluster.figures import TITLES, cells, read_figures
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
    from modelyard.kinds.contract import Kind


class Rows(Struct, frozen=True):
    """What `modelyard get -o json` prints."""

    items: tuple[Row, ...]


async def get_rows(
    session: Session, kinds: Sequence[Kind], names: Sequence[str], *, everywhere: bool, selector: str
) -> tuple[Rows, tuple[str, ...]]:
    """Return the rows of the objects that a command line means, sorted, and a line for each kind that is left out."""
    if names:
        (kind,) = kinds
        found = await for_each(lambda name: session.get(kind.resource, Key(session.namespace, name)), names)
        listed = Listed(tuple(found))
    else:
        namespace = "" if everywhere else session.namespace
        listed = await list_objects(session, [kind.resource for kind in kinds], namespace, selector)
    rows = sorted(map(row, listed.items), key=lambda each: (each.kind, each.namespace, each.name))
    return Rows(tuple(rows)), listed.missing


async def get_figures(session: Session, rows: Rows) -> Figures:
    """Return the figures of the objects of some rows; those that have none, or cannot be read, are left out."""
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
    measured = cells(figures.get(_owner(each))) if figures else ()
    return (*measured, age(each.created, now), each.message)


def _owner(each: Row) -> OwnerKey:
    return OwnerKey(each.kind.lower(), each.namespace, short(each.name))
