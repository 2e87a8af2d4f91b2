"""Who is woken by what the caches learn."""

from __future__ import annotations

import pytest

from modelyard.core.resources import DEPLOYMENT, Key
from modelyard.kinds import ALL
from modelyard.kinds.contract import Named
from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.model import MODEL
from modelyard.runtime.backoff import Backoff
from modelyard.runtime.interest import Item
from modelyard.runtime.queue import Queue
from modelyard.runtime.watching import Watching
from tests.runtime.objects import stored
from tests.support.clock import VirtualClock

READER = Item(INFERENCE_SERVICE.name, Key("default", "chat"))
TINY = stored("tiny", 5, resource=MODEL.resource, status={"phase": "Ready"})


class Yard:
    """All kinds are served, nothing is stored, and a service has read the Model tiny."""

    def __init__(self) -> None:
        self.queue: Queue[Item] = Queue(VirtualClock(), Backoff())
        self.watching = Watching({kind.name: kind for kind in ALL}, self.queue, forget=())
        for cache in self.watching.caches.values():
            cache.replace([], 1)
        self.watching.synced()
        self.models = self.watching.caches[MODEL.resource]
        self.watching.interest.record(READER, [Named(MODEL.resource, "tiny")])

    async def woken(self) -> set[Item]:
        return {await self.queue.get() for _ in range(self.queue.depth)}


@pytest.fixture
def yard() -> Yard:
    return Yard()


async def test_a_service_is_woken_by_what_we_write_of_its_model_although_the_watch_tells_it_later(yard: Yard):
    yard.models.wrote(TINY)
    yard.models.upsert(TINY)
    assert await yard.woken() == {READER}


async def test_a_service_is_woken_once_when_the_watch_tells_it_before_the_answer_to_our_write_is_there(yard: Yard):
    yard.models.upsert(TINY)
    assert READER in await yard.woken()
    yard.models.wrote(TINY)
    assert await yard.woken() == set()


async def test_whoever_wrote_a_child_is_not_woken_by_its_own_write(yard: Yard):
    yard.watching.caches[DEPLOYMENT].wrote(stored("tools", 5, owner="tools:uid-of-tools"))
    assert await yard.woken() == set()
