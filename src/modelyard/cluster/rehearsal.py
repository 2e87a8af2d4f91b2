"""A reconcile without writes: the operator's own controller, with a client that records what it would have written.

`modelyard plan --live` rehearses the objects of a file against the cluster as it is. Nothing of the planning or of the
comparison is repeated here, so it cannot promise something else than what the operator does. What other servers say
(downloads, handshakes, hosts) is not asked: their checks are unanswered, as in the first moment of a new leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from modelyard.core import names
from modelyard.core.hosts import LoadModel, UnloadModel
from modelyard.core.objects import Json, Stored
from modelyard.core.plan import Outcome, Plan
from modelyard.core.resources import EVENT, POD, Key, Resource
from modelyard.kinds import ALL
from modelyard.kube.client import Client
from modelyard.kube.errors import AlreadyExists, Forbidden, NotFound
from modelyard.runtime.apply import Applier
from modelyard.runtime.cache import Cache
from modelyard.runtime.clock import SystemClock
from modelyard.runtime.controller import Controller
from modelyard.runtime.dependents import Dependents, Item
from modelyard.runtime.drift import Drift
from modelyard.runtime.events import EventRecorder
from modelyard.runtime.gather import Gatherer
from modelyard.runtime.metrics import Metrics
from modelyard.runtime.queue import Queue
from modelyard.runtime.rate_limiter import RateLimiter
from modelyard.runtime.unkept_status import UnkeptStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from modelyard.core.checks import Answer, Check
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Kind, Object
    from modelyard.kube.transport import Transport

ROUNDS: Final = 3
"""How often all objects are reconciled: a service may stand before its Model in the file."""

_NEW_UID: Final = "planned"
_LATER: Final = 10**15
"""A resource version that no API server has reached."""
_PLACE: Final = "the rehearsal"


class Written(Struct, frozen=True):
    """One write that the operator would make."""

    owner: Item
    verb: str
    """create, apply, scale or delete."""
    resource: Resource
    key: Key
    before: Json | None = None
    """The live object; None: there is none."""
    body: Json | None = None
    """What would be sent; None: it would be deleted."""


class RecordingClient(Client):
    """Reads from the cluster, and records writes instead of sending them. What it recorded, it also reads back."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.written: list[Written] = []
        self.owner = Item("", Key("", ""))
        """The object that is being reconciled."""
        self._kept: dict[tuple[Resource, Key], Stored] = {}
        self._revision = _LATER

    def assume(self, item: Stored) -> None:
        """Take an object of the file for stored."""
        self._kept[item.resource, item.meta.key] = item

    async def get(self, resource: Resource, key: Key) -> Stored:
        """Return one object as it would be by now."""
        return self._kept.get((resource, key)) or await super().get(resource, key)

    async def create(self, resource: Resource, body: Json) -> Stored:
        """Record a new object; AlreadyExists: its name is taken."""
        key = Key(body["metadata"].get("namespace", ""), body["metadata"]["name"])
        if resource == EVENT:
            return Stored.from_dict(resource, body)
        try:
            await self.get(resource, key)
        except NotFound:
            self._record("create", resource, key, body=body)
            return self._keep(resource, key, body)
        raise AlreadyExists(409, "AlreadyExists", f"{resource.kind} {key} exists")

    async def apply(
        self, resource: Resource, key: Key, body: Json, *, manager: str = "", strict: bool = False
    ) -> Stored:
        """Record a change of an object."""
        del manager, strict
        self._record("apply", resource, key, await self.get_full(resource, key), body)
        return self._keep(resource, key, merged((await self.get(resource, key)).to_dict(), body))

    async def merge_patch(self, resource: Resource, key: Key, patch: Json, subresource: str = "") -> Stored:
        """Record a change of the number of pods. Status and finalizers are kept for what is reconciled next."""
        if subresource == "scale":
            self._record("scale", resource, key, await self.get_full(resource, key), patch)
        return self._keep(resource, key, merged((await self.get(resource, key)).to_dict(), patch))

    async def json_patch(
        self, resource: Resource, key: Key, operations: Sequence[Json], subresource: str = ""
    ) -> Stored:
        """Return the object: the operator puts only managedFields right in this way."""
        del operations, subresource
        return await self.get(resource, key)

    async def delete(self, resource: Resource, key: Key, uid: str, *, grace: int | None = None) -> None:
        """Record a deletion."""
        del uid, grace
        self._record("delete", resource, key, await self.get_full(resource, key))

    def _record(
        self, verb: str, resource: Resource, key: Key, before: Json | None = None, body: Json | None = None
    ) -> None:
        self.written.append(Written(self.owner, verb, resource, key, before, body))

    def _keep(self, resource: Resource, key: Key, body: Json) -> Stored:
        # A cache takes only newer versions.
        self._revision += 1
        meta = {"uid": _NEW_UID, "generation": 1, **body["metadata"], "resourceVersion": str(self._revision)}
        full = {**body, "metadata": meta}
        self._kept[resource, key] = Stored.from_dict(resource, full)
        return self._kept[resource, key]


class Unasked:
    """A poller that asks nothing, and remembers what it was to ask."""

    def __init__(self) -> None:
        self.named: dict[Item, tuple[Check, ...]] = {}

    def look(self, reader: Item, checks: Collection[Check]) -> Mapping[Check, Answer]:
        """Return no answers."""
        self.named[reader] = tuple(checks)
        return {}

    def known(self, reader: Item) -> Mapping[Check, Answer]:
        """Return no answers."""
        del reader
        return {}

    def forget(self, reader: Item) -> None:
        """Forget what an object that is gone has named."""
        self.named.pop(reader, None)


class Rehearsed(Struct, frozen=True):
    """What the operator would do for some objects."""

    written: tuple[Written, ...]
    outcomes: dict[Item, Outcome]
    calls: dict[Item, tuple[LoadModel | UnloadModel, ...]]
    statuses: dict[Item, Json]
    intents: dict[tuple[Item, str, str], Json]
    """The children of the last plan of each object, in full, by kind and name."""


async def rehearse(
    transport: Transport, objects: Sequence[Stored], given: Iterable[Stored], policy: Policy
) -> Rehearsed:
    """Return what the operator would do if these objects of our kinds, and what is given with them, were applied."""
    client = RecordingClient(transport)
    by_resource = {kind.resource: kind for kind in ALL}
    intents: dict[tuple[Item, str, str], Json] = {}
    named = {by_resource[one.resource].name: by_resource[one.resource] for one in objects}
    kinds = {name: _observed(kind, intents) for name, kind in named.items()}
    caches = await _filled(client, kinds.values(), {one.meta.namespace for one in objects}, policy)
    for one in (*given, *objects):
        client.assume(one)
        if one.resource in caches:
            caches[one.resource].record_read(one)
    items = [Item(by_resource[one.resource].name, one.meta.key) for one in objects]
    calls, outcomes = Unasked(), {}
    controller = _controller(client, kinds, caches, calls, policy)
    for _ in range(ROUNDS):
        for item in items:
            client.owner = item
            outcomes[item] = await controller.reconcile(item)
    statuses = {item: _status(caches[kinds[item.kind].resource], item.key) for item in items}
    made = {
        item: tuple(one for one in named if isinstance(one, LoadModel | UnloadModel))
        for item, named in calls.named.items()
    }
    return Rehearsed(tuple(client.written), outcomes, made, statuses, intents)


def _observed(kind: Kind, intents: dict[tuple[Item, str, str], Json]) -> Kind:
    """Return a kind whose plans are also noted in `intents`."""

    def plan(obj: Object[Any], *seen: Any) -> Plan:
        made = kind.plan(obj, *seen)
        item = Item(kind.name, obj.key)
        intents.update({(item, child.resource.kind, child.name): child.body for child in made.apply})
        return made

    return structs.replace(kind, plan=plan)


def _status(cache: Cache, key: Key) -> Json:
    found = cache.get(key)
    return found.status if found else {}


def _controller(
    client: Client, kinds: Mapping[str, Kind], caches: Mapping[Resource, Cache], calls: Unasked, policy: Policy
) -> Controller:
    clock, metrics = SystemClock(), Metrics()
    gather = Gatherer(client, caches, Dependents(), checks=Unasked(), calls=calls, clock=clock, policy=policy)
    return Controller(
        kinds=kinds,
        client=client,
        caches=caches,
        queue=Queue(clock, RateLimiter()),
        gather=gather,
        applier=Applier(client, caches, Drift(clock, metrics.child_differed)),
        calls=calls,
        events=EventRecorder(client, clock, _PLACE),
        unkept=UnkeptStatus(),
        clock=clock,
        metrics=metrics,
    )


async def _filled(
    client: Client, kinds: Collection[Kind], namespaces: set[str], policy: Policy
) -> dict[Resource, Cache]:
    """Return the caches that these kinds read, filled as the watches of an operator fill them."""
    read = {kind.resource for kind in ALL}.union(one for kind in kinds for one in kind.looks_at)
    caches = {}
    for resource in dict.fromkeys(one for kind in kinds for one in kind.watches):
        cache = caches[resource] = Cache(resource, _ignore, _ignore)
        selector = names.OURS if resource == POD or resource not in read else ""
        try:
            items = await _listed(client, resource, namespaces, policy.namespace, selector)
            cache.replace(items, max((item.meta.revision for item in items), default=0))
        except NotFound:
            if not resource.optional:
                raise
            cache.definition_removed()
    return caches


async def _listed(client: Client, resource: Resource, namespaces: set[str], served: str, selector: str) -> list[Stored]:
    try:
        return await client.list_all(resource, served if resource.namespaced else "", selector)
    except Forbidden:
        # A user of one namespace may plan there; what is elsewhere matters to few objects.
        if not resource.namespaced:
            raise
        return [item for one in sorted(namespaces) for item in await client.list_all(resource, one, selector)]


def _ignore(old: Stored | None, new: Stored | None) -> None:
    del old, new


def merged(target: Any, patch: Any) -> Any:
    """Return what a JSON merge patch makes of a value."""
    if not isinstance(patch, dict):
        return patch
    kept = target if isinstance(target, dict) else {}
    changed = {name: merged(kept.get(name), value) for name, value in patch.items() if value is not None}
    return {**{name: value for name, value in kept.items() if name not in patch}, **changed}
