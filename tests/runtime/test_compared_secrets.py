"""Bots compare their tokens with those of all older ones: each Secret is read once for all of them."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from modelyard.core.policy import Policy
from modelyard.core.resources import Key
from modelyard.kinds.decode import decode
from modelyard.kinds.orchestrator import ORCHESTRATOR
from modelyard.kinds.orchestrator.rivals import rival, uncompared
from modelyard.runtime.cache import Cache
from modelyard.runtime.compared_secrets import KEPT_SECONDS
from modelyard.runtime.dependents import Dependents, Item
from modelyard.runtime.gather import Gatherer
from tests.kube.scripted import client_of, serving, status
from tests.runtime.objects import nobody, stored
from tests.runtime.test_gather import Unasked
from tests.support.clock import VirtualClock
from tests.support.orchestrators import orchestrator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.core.conditions import Problem
    from modelyard.kinds.contract import Seen

BOTS = 20


class Yard:
    """Bots, each in a namespace of its own, their tokens, and the operator's reads of them."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.tokens = {number: f"token-{number}" for number in range(BOTS)}
        self.closed: set[int] = set()
        self.asked = 0
        self.gather: Gatherer
        self._bots = Cache(ORCHESTRATOR.resource, nobody, nobody)
        self.caches = {resource: Cache(resource, nobody, nobody) for resource in ORCHESTRATOR.watches}
        self.caches[ORCHESTRATOR.resource] = self._bots
        for number in range(BOTS):
            body = orchestrator(f"team-{number:02}", "bot")
            self._bots.upsert(
                stored("bot", resource=ORCHESTRATOR.resource, namespace=f"team-{number:02}", spec=body["spec"])
            )

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        number = int(request.path.split("/")[4].removeprefix("team-"))
        if number in self.closed:
            return await status(403, "Forbidden")(request)
        data = {"token": self.tokens[number], "users": "1"}
        encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
        meta = {"name": "bot", "namespace": f"team-{number:02}", "uid": str(number), "resourceVersion": "1"}
        return web.json_response({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": encoded})

    async def look(self, number: int) -> Seen:
        key = Key(f"team-{number:02}", "bot")
        bot = self._bots.get(key)
        assert bot
        return await self.gather(Item(ORCHESTRATOR.name, key), ORCHESTRATOR, decode(ORCHESTRATOR, bot))

    async def rival_of(self, number: int) -> Problem | None:
        bot = self._bots.get(Key(f"team-{number:02}", "bot"))
        assert bot
        return rival(decode(ORCHESTRATOR, bot), await self.look(number))

    async def uncompared_of(self, number: int) -> list[str]:
        bot = self._bots.get(Key(f"team-{number:02}", "bot"))
        assert bot
        return uncompared(decode(ORCHESTRATOR, bot), await self.look(number))


@asynccontextmanager
async def yard() -> AsyncIterator[Yard]:
    made = Yard()
    async with serving(made.answer) as server, client_of(server) as client:
        made.gather = Gatherer(
            client, made.caches, Dependents(), checks=Unasked(), calls=Unasked(), clock=made.clock, policy=Policy()
        )
        yield made


async def test_the_secrets_of_many_bots_are_read_once_for_all_of_them():
    async with yard() as bots:
        for number in range(BOTS):
            assert await bots.rival_of(number) is None
        first = bots.asked
        bots.clock.advance(60.0)
        for number in range(BOTS):
            assert await bots.rival_of(number) is None
    assert first <= 2 * BOTS, "each reads its own, and each is read once to be compared"
    assert bots.asked - first == BOTS, "what a bot reads for itself renews what is compared"


async def test_a_token_that_a_bot_reads_anew_is_compared_as_it_is_now():
    async with yard() as bots:
        for number in range(BOTS):
            await bots.look(number)
        bots.tokens[7] = bots.tokens[3]
        found = await bots.rival_of(7)
        assert found
        assert "team-03/bot" in found.message
        bots.tokens[7] = "of its own again"
        assert await bots.rival_of(7) is None


async def test_what_no_bot_reads_for_itself_is_read_again_after_two_minutes():
    async with yard() as bots:
        assert await bots.rival_of(1) is None
        bots.tokens[0] = bots.tokens[1]
        assert await bots.rival_of(1) is None
        bots.clock.advance(KEPT_SECONDS)
        assert await bots.rival_of(1)


async def test_a_refusal_is_kept_as_long():
    async with yard() as bots:
        bots.closed.add(0)
        assert await bots.uncompared_of(1) == ["team-00/bot"]
        asked = bots.asked
        assert await bots.uncompared_of(1) == ["team-00/bot"]
        assert bots.asked - asked == 1, "its own"
        bots.closed.clear()
        bots.clock.advance(KEPT_SECONDS)
        assert await bots.uncompared_of(1) == []
