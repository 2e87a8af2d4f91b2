"""Looks up one object in full: its children, its pods and their events, with the rights of the user.

What the user may not read is left out and named, so that the rest can still be seen.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from modelyard.cluster import next_steps
from modelyard.cluster.explanation import Need
from modelyard.cluster.failures import told
from modelyard.cluster.rows import row as listed
from modelyard.core import names
from modelyard.core.resources import EVENT, SECRET, Key
from modelyard.kinds import ALL
from modelyard.kube.errors import KubeError, NotFound
from modelyard.page import detail
from modelyard.page.cold_start import cold_start
from modelyard.page.edit import actions_of
from modelyard.page.yard import instance_of

if TYPE_CHECKING:
    from modelyard.core.objects import Stored
    from modelyard.core.resources import Resource
    from modelyard.page.detail import Detail
    from modelyard.page.yard import Yard

KINDS: Final = {kind.resource.kind: kind for kind in ALL}
_MOST_PODS: Final = 50
_PODS_WITH_EVENTS: Final = 5
_MOST_EVENTS: Final = 100


async def look_up(yard: Yard, key: str, *, may_edit: bool, flags: str = "") -> Detail | None:
    """Return an object in full; None: there is none of this id. `flags`: what commands for the cluster end with."""
    item, row = yard.objects.get(key), yard.rows.get(key)
    if item is None or row is None:
        return None
    pods = yard.pods_of(instance_of(item))[:_MOST_PODS]
    lookup = _Lookup(yard, item)
    children, events = await asyncio.gather(lookup.children(), lookup.events(pods[:_PODS_WITH_EVENTS]))
    unseen = tuple(used for used in row.uses if not yard.sees(used))
    why = detail.explain(row, yard.rows, unseen)
    commands = next_steps.commands(listed(item), _needs(yard, why.waits_for), pods, children)
    replicas = item.spec.get("replicas", 1) if "replicas" in _fields(item) else None
    return detail.Detail(
        row=row,
        why=msgspec.structs.replace(why, commands=tuple(f"{each}{flags}" for each in dict.fromkeys(commands))),
        instance=instance_of(item),
        uid=item.meta.uid,
        conditions=tuple(item.status.get("conditions") or ()),
        history=yard.conditions.of(item.meta.uid),
        children=tuple(map(detail.child, children)),
        pods=tuple(detail.pod_view(pod, cold_start(pod, yard.now(), yard.loads.of(pod.meta.uid))) for pod in pods),
        # Lists are in the order of names. Only after sorting, the newest are those that are left.
        events=tuple(sorted(map(detail.event_view, events), key=lambda event: event.at, reverse=True)[:_MOST_EVENTS]),
        problems=tuple(dict.fromkeys(lookup.problems)),
        manifest=detail.manifest(item),
        actions=actions_of(item, has_replicas=replicas is not None) if may_edit else (),
        replicas=replicas,
        queue=detail.queue_place(item.status),
        unseen=unseen,
    )


class _Lookup:
    """The requests for one object, and what went wrong with them."""

    def __init__(self, yard: Yard, item: Stored) -> None:
        self._client, self._item = yard.client, item
        self.problems: list[str] = []

    async def children(self) -> list[Stored]:
        """Return the children of the object. Secrets are not looked at."""
        kind = KINDS[self._item.resource.kind]
        wanted = dict.fromkeys(each for each in (*kind.children, *kind.creates) if each != SECRET)
        selector = f"{names.MANAGED_BY}={names.MANAGER},{names.INSTANCE_LABEL}={names.short(self._item.meta.name)}"
        found = await asyncio.gather(*(self._list(each, selector) for each in wanted))
        return [item for items in found for item in items if self._is_child(item)]

    async def events(self, pods: list[Stored]) -> list[Stored]:
        """Return the Events of the object and of some of its pods."""
        found = await asyncio.gather(
            *(self._list(EVENT, "", f"regarding.uid={each.meta.uid}") for each in (self._item, *pods))
        )
        return [event for events in found for event in events]

    def _is_child(self, item: Stored) -> bool:
        owner = item.meta.controller
        # What several objects share, such as the claim of the cache, has no owner.
        return owner is None or owner.uid == self._item.meta.uid

    async def _list(self, resource: Resource, selector: str, field_selector: str = "") -> list[Stored]:
        try:
            return await self._client.list_all(
                resource, self._item.meta.namespace, selector, field_selector=field_selector
            )
        except NotFound:
            # A cluster may lack the definition of an optional resource.
            return []
        except KubeError as error:
            self.problems.append(f"{resource.label}: {told(error)}")
            return []


def _needs(yard: Yard, ids: tuple[str, ...]) -> list[Need]:
    """Return objects by their ids, also those that do not exist."""
    parts = ((each, each.split("/")) for each in ids)
    return [Need(KINDS[kind].resource, Key(space, name), yard.objects.get(each)) for each, (kind, space, name) in parts]


def _fields(item: Stored) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(KINDS[item.resource.kind].spec))
