"""What the operator learns from routers: the check, answered by real Envoys."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest
from aiohttp import ClientResponse, web

from modelyard.core.checks.router_report import RouterReport
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.reasons import Reason
from modelyard.kinds.shared.envoy_router import loaded, router_bootstrap, router_files
from modelyard.kinds.shared.envoy_routes import POD_HEADER
from modelyard.kinds.shared.traffic import RouterState
from modelyard.local.ports import free_ports
from modelyard.net.router_report import ask_routers
from tests.envoy.proxies import POD, Engine, Envoy, running_engines, running_envoy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiohttp import ClientSession

    from modelyard.core.checks import Answer

WEIGHTS = {"primary": 80, "canary": 20}


@pytest.fixture
async def engines() -> AsyncIterator[list[Engine]]:
    async with running_engines("primary", "canary") as running:
        yield running


@pytest.fixture
async def router(engines: list[Engine], tmp_path: Path) -> AsyncIterator[Envoy]:
    bootstrap = partial(router_bootstrap, tracks={engine.name: engine.address for engine in engines})
    async with running_envoy(tmp_path, router_files(WEIGHTS), bootstrap) as running:
        yield running


async def report(port: int, routers: int = 1) -> Answer:
    check = RouterReport(ServiceAddress("default", "chat-router", 8080), routers, tuple(WEIGHTS))
    return await ask_routers(check, lambda _: ("127.0.0.1", port))


def states(answer: Answer) -> dict[str, RouterState]:
    return msgspec.convert(answer.value, dict[str, RouterState])


async def test_a_router_tells_its_weights_and_what_is_in_flight(
    router: Envoy, engines: list[Engine], session: ClientSession
) -> None:
    body = {"stream": True, "chunks": 2, "stepwise": True}
    requests = [asyncio.create_task(session.post(f"{router.url}/v1/chat/completions", json=body)) for _ in range(8)]
    async with asyncio.timeout(60):
        while sum(len(engine.requests) for engine in engines) < len(requests):
            await asyncio.sleep(0.01)
    # Without the second router it is asked for, what the first one said is reported all the same.
    answer = await report(router.proxy.listen.port, routers=2)
    assert (answer.ok, list(answer.value)) == (True, [POD])
    said = states(answer)[POD]
    assert (said.version, said.weights) == (router_files(WEIGHTS).version, WEIGHTS)
    in_flight = {engine.name: len(engine.requests) for engine in engines if engine.requests}
    assert {track: each.active for track, each in said.figures.items() if each.active} == in_flight
    for request in requests:
        request.cancel()
    for begun in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(begun, ClientResponse):
            begun.close()


async def test_a_router_that_is_at_rest_says_the_same_each_time(router: Envoy) -> None:
    assert await report(router.proxy.listen.port) == await report(router.proxy.listen.port)


async def test_a_router_that_chance_leads_to_late_is_reported_too() -> None:
    asked = Counter[str]()

    async def answer(request: web.BaseRequest) -> web.Response:
        asked[request.path] += 1
        pod = "first" if asked[request.path] <= 20 else "second"
        return web.json_response({"version": "v", "weights": WEIGHTS}, headers={POD_HEADER: pod})

    [port] = free_ports(1)
    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        found = await report(port, routers=2)
    finally:
        await runner.cleanup()
    assert list(found.value) == ["first", "second"]


@pytest.mark.parametrize("said", [b"{}", b"[]", b"hello", b'{"version": "v", "weights": {}}'])
def test_what_gives_no_share_to_any_track_is_no_router(said: bytes) -> None:
    assert loaded(said) is None


async def test_where_nothing_listens_there_is_no_answer() -> None:
    answer = await report(free_ports(1)[0])
    assert (answer.ok, answer.reason) == (False, Reason.NO_ANSWER)


async def test_an_engine_in_place_of_a_router_is_told_from_one(engines: list[Engine]) -> None:
    answer = await report(engines[0].address.port)
    assert (answer.ok, answer.reason) == (False, Reason.BAD_ANSWER)
