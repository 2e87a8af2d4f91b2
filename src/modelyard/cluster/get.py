"""`modelyard get`: the objects of all kinds with what their status says, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.cluster.listing import Listed, list_objects
from modelyard.cluster.output import Output, age, encoded, table
from modelyard.cluster.rows import Row, row
from modelyard.cluster.session import for_each
from modelyard.core.resources import Key

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

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


def printed(rows: Rows, output: Output, now: datetime, *, everywhere: bool) -> str:
    """Return rows as `get` prints them; empty: a table without rows."""
    if output.is_for_programs:
        return encoded(rows, output)
    is_wide = output is Output.WIDE
    titles = ("KIND", *(["NAMESPACE"] if everywhere else []), "NAME", "PHASE", "READY", "REASON", "URL")
    cells = [_cells(each, now, everywhere=everywhere, is_wide=is_wide) for each in rows.items]
    return table((*titles, *(["AGE", "MESSAGE"] if is_wide else [])), cells) if cells else ""


def _cells(each: Row, now: datetime, *, everywhere: bool, is_wide: bool) -> tuple[str, ...]:
    place = (each.namespace,) if everywhere else ()
    more = (age(each.created, now), each.message) if is_wide else ()
    return (each.kind, *place, each.name, each.phase, each.count, each.reason, each.url, *more)
