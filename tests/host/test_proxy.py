"""The way from clients to engines, with an engine that streams as slowly as it is told to."""

from __future__ import annotations

import asyncio
import json
from io import BytesIO
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.host.daemons import GREEN, YARD, Daemon, running, stand_in
from tests.host.engine import stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STREAMS = 40


@pytest.fixture(scope="module")
async def daemon(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Daemon]:
    folder = tmp_path_factory.mktemp("proxy")
    async with running(folder, "--memory=256Mi", stand_in(folder)) as daemon:
        await daemon.ready(YARD)
        yield daemon


async def complete(daemon: Daemon, **body: Any) -> bytes:
    async with aiohttp.ClientSession() as session:
        url = f"{daemon.url}/v1/chat/completions"
        async with session.post(url, data=BytesIO(json.dumps({"model": YARD, **body}).encode())) as response:
            assert response.status == 200
            assert response.headers["X-Engine"] == "stand-in"
            return await response.read()


async def test_many_streams_at_once_arrive_whole(daemon: Daemon) -> None:
    asked = [complete(daemon, pieces=20, every=0.02) for _ in range(STREAMS)]
    assert set(await asyncio.gather(*asked)) == {stream(20)}


async def test_a_piece_arrives_before_the_next_is_made(daemon: Daemon) -> None:
    async with aiohttp.ClientSession() as session:
        body = {"model": YARD, "pieces": 2, "every": 3600}
        async with session.post(f"{daemon.url}/v1/chat/completions", json=body) as response:
            async with asyncio.timeout(60):
                assert b"000000" in await response.content.readany()
    # Its client is gone: the request must not go on for an hour.
    await daemon.until(YARD, lambda entry: entry["inFlight"] == 0)


async def test_the_head_of_an_answer_does_not_wait_for_a_body_that_is_slow(daemon: Daemon) -> None:
    async with aiohttp.ClientSession() as session:
        body = {"model": YARD, "pieces": 1, "wait": 3600}
        async with asyncio.timeout(60), session.post(f"{daemon.url}/v1/chat/completions", json=body) as response:
            assert response.headers["X-Engine"] == "stand-in"
    await daemon.until(YARD, lambda entry: entry["inFlight"] == 0)


async def test_an_engine_that_ends_in_the_middle_breaks_the_stream_and_is_back(daemon: Daemon) -> None:
    with pytest.raises(aiohttp.ClientError):
        await complete(daemon, pieces=10, die=5, every=0.05)
    await daemon.until(YARD, lambda entry: entry["state"] == "ready" and entry["restarts"] == 1)
    assert await complete(daemon, pieces=3) == stream(3)


async def test_a_large_body_passes(daemon: Daemon) -> None:
    assert await complete(daemon, pieces=1, picture="x" * (5 * 2**20)) == stream(1)


async def test_unloading_waits_for_requests_in_flight_and_takes_no_more(daemon: Daemon) -> None:
    await daemon.ready(GREEN)
    asked = asyncio.create_task(complete(daemon, model=GREEN, pieces=40, every=0.05))
    await daemon.until(GREEN, lambda entry: entry["inFlight"] == 1)
    assert (await daemon.call("DELETE", f"/admin/models?model={GREEN}")).body["state"] == "unloading"
    assert (await daemon.ask(GREEN)).code == (503, "NotReady")
    assert (await daemon.load(GREEN)).code == (409, "Busy")
    assert await asked == stream(40)
    await daemon.until(GREEN, lambda entry: entry["state"] == "gone")


async def test_a_model_is_called_by_its_aliases_and_its_engine_by_its_id(daemon: Daemon) -> None:
    await daemon.ready(YARD, aliases=["yard"])
    await daemon.ready(YARD, aliases=["team/yard"])
    answers = [await daemon.ask(name, pieces=1) for name in (YARD, "yard", "team/yard")]
    assert [(answer.status, answer.headers["X-Model"]) for answer in answers] == [(200, YARD)] * 3
    assert (await daemon.ask("lawn")).code == (404, "model_not_found")


async def test_a_name_of_two_models_is_refused_with_what_to_name_instead(daemon: Daemon) -> None:
    await daemon.ready(YARD, aliases=["twin"])
    await daemon.ready(GREEN, aliases=["twin"])
    answer = await daemon.ask("twin")
    assert answer.code == (404, "model_not_found")
    assert answer.body["error"]["message"] == f"several models are called twin; name {GREEN} or {YARD}"
