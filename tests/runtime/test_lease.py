"""Who leads counts from when the Lease was asked for, not from when the answer was read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from modelyard.core.resources import LEASE, Key
from modelyard.runtime.lease import Elector, LeaseTiming
from tests.kube.scripted import answer, client_of, serving, status

if TYPE_CHECKING:
    from aiohttp import web

    from modelyard.core.objects import Json
    from tests.kube.scripted import Answer

KEY = Key("modelyard-system", "modelyard")
TIMING = LeaseTiming(retry_period=0.01)
FROZEN = 20.0
"""Longer than anybody waits before the Lease is taken over."""


class Watch:
    """A clock that only moves when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lease(revision: int, holder: str) -> Json:
    meta = {"namespace": KEY.namespace, "name": KEY.name, "uid": "u", "resourceVersion": str(revision)}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta, "spec": {"holderIdentity": holder}}


def frozen_meanwhile(watch: Watch, give: Answer) -> Answer:
    async def late(request: web.Request) -> web.StreamResponse:
        watch.now += FROZEN
        return await give(request)

    return late


async def test_a_candidate_that_was_frozen_while_it_won_asks_again_before_it_leads():
    watch = Watch()
    won = frozen_meanwhile(watch, answer(lease(2, "me")))
    async with serving(answer(lease(1, "")), won, answer(lease(3, "me"))) as server, client_of(server) as client:
        async with asyncio.timeout(60):
            await Elector(client, KEY, "me", TIMING, watch).acquire()
    assert [asked.method for asked in server.asked] == ["GET", "PUT", "PUT"]


async def test_a_candidate_that_was_frozen_while_it_won_gives_way_to_who_leads_now():
    watch = Watch()
    won = frozen_meanwhile(watch, answer(lease(2, "me")))
    taken = (status(409, "Conflict"), answer(lease(3, "other")))
    async with serving(answer(lease(1, "")), won, *taken) as server, client_of(server) as client:
        acquiring = asyncio.create_task(Elector(client, KEY, "me", TIMING, watch).acquire())
        async with asyncio.timeout(60):
            while len(server.asked) < 4:
                await asyncio.sleep(0.01)
        assert not acquiring.done()
        acquiring.cancel()
        await asyncio.gather(acquiring, return_exceptions=True)
    assert [asked.method for asked in server.asked] == ["GET", "PUT", "PUT", "GET"]


async def test_a_leader_that_was_frozen_while_it_renewed_stops_at_once():
    watch = Watch()
    renewed = frozen_meanwhile(watch, answer(lease(3, "me")))
    async with serving(answer(lease(1, "")), answer(lease(2, "me")), renewed) as server, client_of(server) as client:
        elector = Elector(client, KEY, "me", TIMING, watch)
        async with asyncio.timeout(60):
            await elector.acquire()
            await elector.renew()
    assert [asked.method for asked in server.asked] == ["GET", "PUT", "PUT"]
