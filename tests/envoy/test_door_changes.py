"""The door while models, their servers and its files change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from modelyard.kinds.shared.envoy_door import Backend, door_bootstrap, door_files
from tests.envoy.doors import CHAT, chat, get
from tests.envoy.proxies import Engine, Envoy, running_engines, running_envoy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiohttp import ClientSession


@pytest.fixture
async def engines() -> AsyncIterator[list[Engine]]:
    async with running_engines("one", "two") as running:
        yield running


@pytest.fixture
def backends(engines: list[Engine]) -> list[Backend]:
    return [Backend((engine.name,), engine.address) for engine in engines]


@pytest.fixture
async def door(backends: list[Backend], tmp_path: Path) -> AsyncIterator[Envoy]:
    async with running_envoy(tmp_path, door_files(backends), door_bootstrap) as running:
        yield running


async def test_the_door_is_healthy_even_without_models(session: ClientSession, tmp_path: Path) -> None:
    async with running_envoy(tmp_path, door_files([]), door_bootstrap) as door:
        assert await get(session, door, "/health") == (200, {"status": "ok"})
        assert await get(session, door, "/v1/models") == (200, {"object": "list", "data": []})
        status, answer = await chat(session, door, "one")
        assert status == 404
        assert answer["error"]["message"] == "There is no model 'one' here; no model is served yet"


async def test_a_model_without_a_server_is_told_at_once(
    door: Envoy, session: ClientSession, engines: list[Engine]
) -> None:
    await engines[0].stop()
    async with asyncio.timeout(60):
        status, answer = await chat(session, door, "one")
    assert (status, answer["error"]["type"], answer["error"]["code"]) == (503, "server_error", "server_unavailable")
    assert (await chat(session, door, "two"))[0] == 200


async def test_a_server_that_starts_just_now_is_waited_for(
    door: Envoy, session: ClientSession, engines: list[Engine]
) -> None:
    await engines[0].stop()
    asked = asyncio.create_task(chat(session, door, "one", image="a" * 5_000_000))
    await door.until_figure(session, "cluster.backends.upstream_cx_connect_fail")
    await engines[0].start()
    status, answer = await asked
    assert (status, answer["engine"]) == (200, "one")


async def test_models_come_and_go_without_a_restart(
    door: Envoy, session: ClientSession, backends: list[Backend], engines: list[Engine]
) -> None:
    await door.load(session, door_files([*backends, Backend(("three",), engines[1].address)]))
    assert (await chat(session, door, "three"))[1]["engine"] == "two"
    await door.load(session, door_files([Backend(("one",), engines[1].address)]))
    assert (await chat(session, door, "one"))[1]["engine"] == "two"
    status, answer = await chat(session, door, "two")
    assert (status, answer["error"]["message"]) == (404, "There is no model 'two' here; there are: one")


async def test_an_answer_ends_well_although_its_model_is_removed(
    door: Envoy, session: ClientSession, engines: list[Engine]
) -> None:
    body = {"model": "one", "stream": True, "chunks": 2, "stepwise": True}
    engines[0].step.set()
    async with session.post(door.url + CHAT, json=body) as response:
        await response.content.readuntil(b"\n\n")
        await door.load(session, door_files([]))
        engines[0].step.set()
        assert (await response.content.read()).endswith(b"data: [DONE]\n\n")


async def test_files_may_be_renamed_one_by_one(door: Envoy, session: ClientSession, engines: list[Engine]) -> None:
    files = door_files([Backend(("one",), engines[1].address)])
    door.rename(files.data)
    await door.until_in_force(session, files.version)
    assert (await chat(session, door, "one"))[1]["engine"] == "two"


async def test_a_broken_file_leaves_everything_as_it_was(
    door: Envoy, session: ClientSession, backends: list[Backend], engines: list[Engine]
) -> None:
    before = await door.version(session)
    door.write({"routes.json": "{"})
    await door.until_figure(session, "http.traffic.rds.traffic.update_failure")
    assert await door.version(session) == before
    assert (await chat(session, door, "one"))[1]["engine"] == "one"
    await door.load(session, door_files([*backends, Backend(("three",), engines[1].address)]))
    assert (await chat(session, door, "three"))[1]["engine"] == "two"


async def test_an_api_below_another_path_is_found_there(
    door: Envoy, session: ClientSession, engines: list[Engine]
) -> None:
    await door.load(session, door_files([Backend(("one",), engines[0].address, path="/openai/v1/")]))
    assert (await chat(session, door, "one"))[1]["path"] == "/openai/v1/chat/completions"


async def test_the_first_to_claim_a_name_has_it(door: Envoy, session: ClientSession, engines: list[Engine]) -> None:
    older, newer = (Backend((engine.name, "shared"), engine.address) for engine in engines)
    await door.load(session, door_files([older, newer]))
    answers = [(await chat(session, door, model))[1]["engine"] for model in ("one", "two", "shared")]
    assert answers == ["one", "two", "one"]
    await door.load(session, door_files([newer, older]))
    assert (await chat(session, door, "shared"))[1]["engine"] == "two"


async def test_a_backend_may_be_named_by_dns(door: Envoy, session: ClientSession, backends: list[Backend]) -> None:
    named = msgspec.structs.replace(backends[0].address, host="localhost")
    await door.load(session, door_files([Backend(("one",), named)]))
    assert (await chat(session, door, "one"))[1]["engine"] == "one"


async def test_five_hundred_models_fit_into_a_config_map(
    door: Envoy, session: ClientSession, engines: list[Engine]
) -> None:
    names = [(f"service-number-{number}", f"meta-llama/Llama-3.1-8B-Instruct-{number}") for number in range(500)]
    files = door_files([Backend(each, engines[0].address) for each in names])
    assert sum(map(len, files.data.values())) < 2**20
    await door.load(session, files)
    assert (await chat(session, door, names[-1][1]))[1]["engine"] == "one"
    assert len((await get(session, door, "/v1/models"))[1]["data"]) == 1000
    status, answer = await chat(session, door, "unknown")
    assert (status, names[-1][0] in answer["error"]["message"]) == (404, True)
