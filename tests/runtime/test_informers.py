"""Who is woken by what the caches learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelyard.core import names
from modelyard.core.resources import DEPLOYMENT, POD, Key
from modelyard.kinds import ALL
from modelyard.kinds.contract import Named
from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.mcp import MCP
from modelyard.kinds.model import MODEL
from modelyard.runtime.dependents import Item
from modelyard.runtime.informers import Informers
from modelyard.runtime.queue import Queue
from modelyard.runtime.rate_limiter import RateLimiter
from tests.runtime.objects import stored
from tests.support.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

READER = Item(INFERENCE_SERVICE.name, Key("default", "chat"))
TOOLS = Item(MCP.name, Key("default", "tools"))
OWNED = Item(MODEL.name, Key("default", "owned"))
TINY = stored("tiny", 5, resource=MODEL.resource, status={"phase": "Ready"})


class Yard:
    """All kinds are served, nothing is stored, and a service has read the Model tiny."""

    def __init__(self) -> None:
        self.queue: Queue[Item] = Queue(VirtualClock(), RateLimiter())
        self.informers = Informers({kind.name: kind for kind in ALL}, self.queue, forget=())
        for cache in self.informers.caches.values():
            cache.replace([], 1)
        self.informers.start_synced_kinds()
        self.forgotten: list[Item] = []
        self.models = self.informers.caches[MODEL.resource]
        self.informers.dependents.record(READER, [Named(MODEL.resource, "tiny")])

    def leading(self) -> AbstractContextManager[None]:
        return self.informers.leading(self.forgotten.append)

    async def woken(self) -> set[Item]:
        items = {await self.queue.get() for _ in range(self.queue.depth)}
        for item in items:
            self.queue.done(item)
        return items


@pytest.fixture
def yard() -> Iterator[Yard]:
    yard = Yard()
    with yard.leading():
        yield yard


async def test_a_service_is_woken_by_what_we_write_of_its_model_although_the_watch_tells_it_later(yard: Yard):
    yard.models.record_write(TINY)
    yard.models.upsert(TINY)
    assert await yard.woken() == {READER}


async def test_a_service_is_woken_once_when_the_watch_tells_it_before_the_answer_to_our_write_is_there(yard: Yard):
    yard.models.upsert(TINY)
    assert READER in await yard.woken()
    yard.models.record_write(TINY)
    assert await yard.woken() == set()


async def test_whoever_wrote_a_child_is_not_woken_by_its_own_write(yard: Yard):
    yard.informers.caches[DEPLOYMENT].record_write(stored("tools", 5, owner="tools:uid-of-tools"))
    assert await yard.woken() == set()


async def test_whoever_wrote_a_child_is_woken_when_the_answer_tells_what_others_did_meanwhile(yard: Yard):
    # Its pod became ready between the look and the write, and nothing has asked the server yet.
    deployments = yard.informers.caches[DEPLOYMENT]
    deployments.upsert(stored("tools", 5, owner="tools:uid-of-tools", status={"replicas": 1}))
    await yard.woken()
    ready = stored("tools", 7, owner="tools:uid-of-tools", status={"replicas": 1, "readyReplicas": 1})
    deployments.record_write(ready)
    deployments.upsert(ready)
    assert await yard.woken() == {TOOLS}


async def test_whoever_writes_its_own_status_is_not_woken_by_it(yard: Yard):
    yard.models.upsert(stored("other", 5, resource=MODEL.resource))
    await yard.woken()
    yard.models.record_write(stored("other", 7, resource=MODEL.resource, status={"phase": "Ready"}))
    assert await yard.woken() == set()


async def test_an_object_that_another_one_creates_is_reconciled_although_the_watch_brings_nothing_new(yard: Yard):
    made = stored("owned", 5, resource=MODEL.resource, owner="tools:uid-of-tools")
    yard.models.record_write(made)
    yard.models.upsert(made)
    assert await yard.woken() == {OWNED}


async def test_an_object_whose_owner_changes_it_is_reconciled_and_its_owner_is_not(yard: Yard):
    yard.models.upsert(stored("owned", 5, resource=MODEL.resource, owner="tools:uid-of-tools"))
    await yard.woken()
    yard.models.record_write(stored("owned", 6, resource=MODEL.resource, owner="tools:uid-of-tools", spec={"a": 1}))
    assert await yard.woken() == {OWNED}


async def test_the_owner_is_woken_by_the_status_that_an_object_of_ours_writes_and_the_object_is_not(yard: Yard):
    yard.models.upsert(stored("owned", 5, resource=MODEL.resource, owner="tools:uid-of-tools"))
    await yard.woken()
    ready = stored("owned", 6, resource=MODEL.resource, owner="tools:uid-of-tools", status={"phase": "Ready"})
    yard.models.record_write(ready)
    yard.models.upsert(ready)
    assert await yard.woken() == {TOOLS}


async def test_whoever_finds_a_child_that_it_did_not_know_is_woken_to_look_with_it(yard: Yard):
    # The answer to the create was lost, and the watch is behind.
    deployments = yard.informers.caches[DEPLOYMENT]
    deployments.record_read(stored("tools", 5, owner="tools:uid-of-tools", status={"readyReplicas": 1}))
    assert await yard.woken() == {TOOLS}


async def test_a_model_with_a_long_name_is_woken_by_its_pods(yard: Yard):
    name = "m" * 80
    yard.models.upsert(stored(name, 5, resource=MODEL.resource))
    await yard.woken()
    labels = {names.KIND_LABEL: MODEL.name, names.INSTANCE_LABEL: names.short(name)}
    yard.informers.caches[POD].upsert(stored("fetch", 6, resource=POD, labels=labels))
    assert await yard.woken() == {Item(MODEL.name, Key("default", name))}


async def test_pods_of_a_model_with_a_long_name_that_is_gone_wake_nobody_of_that_name(yard: Yard):
    name = "m" * 80
    gone = stored(name, 5, resource=MODEL.resource)
    yard.models.upsert(gone)
    yard.models.remove(gone)
    await yard.woken()
    labels = {names.KIND_LABEL: MODEL.name, names.INSTANCE_LABEL: names.short(name)}
    yard.informers.caches[POD].upsert(stored("fetch", 6, resource=POD, labels=labels))
    assert Item(MODEL.name, Key("default", name)) not in await yard.woken()


async def test_a_standby_does_not_keep_the_names_of_all_that_came_and_went():
    standby = Yard()
    standby.models.upsert(TINY)
    standby.models.remove(TINY)
    assert standby.queue.depth == 0


async def test_a_new_leader_looks_at_everything_there_is_and_at_nothing_once_it_has_lost():
    yard = Yard()
    yard.models.upsert(TINY)
    with yard.leading():
        assert await yard.woken() == {Item(MODEL.name, TINY.meta.key)}
    yard.models.upsert(stored("tiny", 6, resource=MODEL.resource))
    assert yard.queue.depth == 0


def test_what_was_read_for_an_object_is_forgotten_when_others_lead():
    # It may be deleted while they do, and its server would be asked for ever after.
    yard = Yard()
    with yard.leading():
        yard.models.upsert(TINY)
        assert yard.forgotten == []
    assert yard.forgotten == [Item(MODEL.name, TINY.meta.key)]
