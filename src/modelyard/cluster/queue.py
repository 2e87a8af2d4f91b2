"""`modelyard queue`: read the pods and nodes that decide who gets GPUs, and print the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from modelyard.cluster.failures import may_not
from modelyard.cluster.output import Output, age, encoded, table
from modelyard.cluster.waiting import Queue, Waiting, gpu_queue
from modelyard.core import names
from modelyard.core.resources import NODE, POD
from modelyard.kube.errors import Forbidden

if TYPE_CHECKING:
    from datetime import datetime

    from modelyard.cluster.session import Session
    from modelyard.core.objects import Stored


async def find_queue(session: Session, namespace: str) -> tuple[Queue, list[str]]:
    """Return the queue, of objects in one namespace or (empty) all, and a line for what could not be read.

    Positions count all namespaces. NoRights: not even the pods of the namespace may be listed.
    """
    missing = []
    try:
        pods = await session.client.list_all(POD, "", names.OURS)
    except Forbidden as error:
        missing.append(f"{may_not(error)}; only the namespace {session.namespace} is counted")
        pods = await session.client.list_all(POD, session.namespace, names.OURS)
    nodes: list[Stored] = []
    try:
        nodes = await session.client.list_all(NODE)
    except Forbidden as error:
        missing.append(may_not(error))
    found = gpu_queue(pods, nodes)
    shown = tuple(one for one in found.waiting if not namespace or one.namespace == namespace)
    return structs.replace(found, waiting=shown), missing


def printed(found: Queue, output: Output, now: datetime) -> str:
    """Return the queue as it is printed; empty: a table without rows."""
    if output.is_for_programs:
        return encoded(found, output)
    is_wide = output is Output.WIDE
    titles = ("POSITION", "KIND", "NAMESPACE", "NAME", "WAITS FOR", "PRIORITY", "HELD BY")
    rows = [(*_cells(one), *([age(one.since, now)] if is_wide else [])) for one in found.waiting]
    shown = table((*titles, *(["SINCE"] if is_wide else [])), rows) if rows else ""
    supplies = [(one.resource, str(one.capacity), str(one.held)) for one in found.supplies]
    return shown + ("\n" + table(("RESOURCE", "CAPACITY", "HELD"), supplies) if is_wide and supplies else "")


def _cells(one: Waiting) -> tuple[str, ...]:
    wanted, holders = f"{one.resource}: {one.gpus}", ", ".join(holder.text for holder in one.held_by)
    return (str(one.position), one.kind, one.namespace, one.name, wanted, str(one.priority), holders)
