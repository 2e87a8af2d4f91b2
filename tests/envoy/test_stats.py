"""What a router's figures say, read from a real Envoy."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
import pytest

from modelyard.kinds.shared.envoy_router import router_bootstrap, router_files
from modelyard.kinds.shared.envoy_routes import STATS_PATH
from modelyard.kinds.shared.envoy_stats import QUERY, Figures, figures_of
from tests.envoy.proxies import Engine, Envoy, running_engines, running_envoy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiohttp import ClientSession

CHAT = "/v1/chat/completions"


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with running_engines("canary") as (running,):
        yield running


@pytest.fixture
async def router(engine: Engine, tmp_path: Path) -> AsyncIterator[Envoy]:
    bootstrap = partial(router_bootstrap, tracks={"canary": engine.address})
    async with running_envoy(tmp_path, router_files({"canary": 100}), bootstrap) as running:
        yield running


async def read(session: ClientSession, router: Envoy) -> Figures:
    async with session.get(f"{router.url}{STATS_PATH}?{QUERY}") as response:
        assert response.status == 200
        return figures_of(await response.text()).get("canary", Figures())


async def ask(session: ClientSession, router: Envoy, path: str = CHAT, **body: object) -> None:
    async with session.post(router.url + path, json={"model": "any", **body}) as response:
        await response.read()


async def test_requests_and_errors_of_a_track_are_counted(router: Envoy, session: ClientSession) -> None:
    assert await read(session, router) == Figures()
    for _ in range(3):
        await ask(session, router)
    before = await read(session, router)
    assert (before.requests, before.errors) == (3, 0)
    for status in (500, 503, 404):
        await ask(session, router, f"/status/{status}")
    now = (await read(session, router)).since(before)
    assert (now.requests, now.errors) == (3, 2)


async def test_a_request_is_an_error_once_however_it_ends(
    router: Envoy, session: ClientSession, engine: Engine
) -> None:
    engine.step.set()
    body = {"model": "any", "stream": True, "chunks": 2, "stepwise": True}
    async with session.post(router.url + CHAT, json=body) as response:
        await response.content.readuntil(b"\n\n")
        await engine.stop()
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    assert (await read(session, router)).errors == 1
    await ask(session, router)
    assert (await read(session, router)).errors == 2
    await engine.start()
    await ask(session, router, "/die")
    figures = await read(session, router)
    assert (figures.requests, figures.errors) == (3, 3)


async def test_the_time_of_answers_is_told(router: Envoy, session: ClientSession) -> None:
    for pause in (0, 0, 0, 0.3):
        await ask(session, router, stream=True, chunks=1, pause=pause)
    async with asyncio.timeout(60):
        while (figures := await read(session, router)).within.get(float("inf"), 0) < 4:
            await asyncio.sleep(0.05)
    slowest, middle = figures.quantile(0.99), figures.quantile(0.5)
    assert slowest is not None
    assert middle is not None
    assert middle < 0.25 <= slowest <= 0.5


def test_figures_of_an_envoy_that_started_anew_count_whole() -> None:
    before, now = Figures(10, 2, {1.0: 10}), Figures(3, 1, {1.0: 3})
    assert now.since(before) == now


def test_figures_of_two_envoys_add_up() -> None:
    one, two = Figures(1, 1, {1.0: 1}), Figures(2, 0, {1.0: 1, 5.0: 2})
    assert one + two == Figures(3, 1, {1.0: 2, 5.0: 2})


@pytest.mark.parametrize(
    ("within", "share", "seconds"),
    [
        ({}, 0.95, None),
        ({1.0: 0, float("inf"): 0}, 0.95, None),
        ({100.0: 0, 200.0: 10, float("inf"): 10}, 0.5, 0.15),
        ({100.0: 10, 200.0: 10, float("inf"): 10}, 1.0, 0.1),
        ({100.0: 5, float("inf"): 10}, 0.95, 0.1),
    ],
)
def test_a_quantile_is_read_off_the_buckets(within: dict[float, int], share: float, seconds: float | None) -> None:
    assert Figures(10, 0, within).quantile(share) == seconds
