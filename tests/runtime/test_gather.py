"""What an object reads is remembered before anything is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.policy import Policy
from modelyard.core.resources import Key
from modelyard.kinds.decode import decode
from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.model import MODEL
from modelyard.runtime.cache import Cache
from modelyard.runtime.dependents import Dependents, Item
from modelyard.runtime.gather import Gatherer
from tests.kube.scripted import client_of, serving, status
from tests.runtime.objects import nobody, stored
from tests.support.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Collection

    from aiohttp import web

    from modelyard.core.checks import Answer, Check
    from modelyard.core.objects import Stored

CHAT = stored("chat", resource=INFERENCE_SERVICE.resource, spec={"modelRef": "tiny"})
READER = Item(INFERENCE_SERVICE.name, Key("default", "chat"))
PRIVATE = {"source": "https://models.invalid/tiny.gguf", "sourceSecretRef": {"name": "token"}}


class Unasked:
    """Nobody who could be asked."""

    def look(self, _reader: Item, _checks: Collection[Check]) -> dict[Check, Answer]:
        return {}

    def known(self, _reader: Item) -> dict[Check, Answer]:
        return {}

    def forget(self, _reader: Item) -> None:
        pass


async def test_a_model_that_changes_while_its_secret_is_waited_for_wakes_the_service():
    dependents, woken = Dependents(), set[Item]()

    def changed(old: Stored | None, new: Stored | None) -> None:
        woken.update(dependents.woken_by(MODEL.resource, old, new))

    models = Cache(MODEL.resource, changed, nobody)
    others = {resource: Cache(resource, nobody, nobody) for resource in INFERENCE_SERVICE.watches}
    models.upsert(stored("tiny", 1, resource=MODEL.resource, spec=PRIVATE))

    async def no_secret_but_an_edit(request: web.Request) -> web.StreamResponse:
        models.upsert(stored("tiny", 2, resource=MODEL.resource, spec={**PRIVATE, "format": "safetensors"}))
        return await status(404, "NotFound")(request)

    async with serving(no_secret_but_an_edit) as server, client_of(server) as client:
        gather = Gatherer(
            client,
            {**others, MODEL.resource: models},
            dependents,
            checks=Unasked(),
            calls=Unasked(),
            clock=VirtualClock(),
            policy=Policy(),
        )
        await gather(READER, INFERENCE_SERVICE, decode(INFERENCE_SERVICE, CHAT))
    assert woken == {READER}
