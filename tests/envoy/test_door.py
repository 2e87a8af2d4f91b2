"""What clients see of the door: the real Envoy in front of real servers, with the same models throughout."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from modelyard.kinds.shared.envoy import MOST_BODY_BYTES
from modelyard.kinds.shared.envoy_door import Backend, door_bootstrap, door_files
from tests.envoy.doors import CHAT, STRANGE, chat, get, post
from tests.envoy.proxies import Engine, Envoy, running_engines, running_envoy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import ClientSession


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[list[Engine]]:
    async with running_engines("one", "two") as engines:
        yield engines


@pytest.fixture
def engines(running: list[Engine]) -> list[Engine]:
    for engine in running:
        engine.requests.clear()
    return running


@pytest.fixture(scope="module")
async def door(running: list[Engine], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Envoy]:
    one, two = running
    files = door_files([Backend(("one", STRANGE), one.address, created=1700000000), Backend(("two",), two.address)])
    async with running_envoy(tmp_path_factory.mktemp("door"), files, door_bootstrap) as envoy:
        yield envoy


@pytest.mark.parametrize(("model", "engine"), [("one", "one"), (STRANGE, "one"), ("two", "two")])
async def test_a_request_goes_to_the_server_of_its_model(
    door: Envoy, session: ClientSession, model: str, engine: str
) -> None:
    status, answer = await chat(session, door, model)
    assert (status, answer["engine"], answer["path"]) == (200, engine, CHAT)


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/x-www-form-urlencoded", ""])
async def test_what_a_client_says_of_its_body_does_not_matter(
    door: Envoy, session: ClientSession, content_type: str
) -> None:
    status, answer = await post(session, door, '{"model": "two"}', content_type)
    assert (status, answer["engine"]) == (200, "two")


async def test_all_names_of_all_models_are_listed(door: Envoy, session: ClientSession) -> None:
    status, answer = await get(session, door, "/v1/models")
    card = {"object": "model", "owned_by": "modelyard"}
    assert (status, answer) == (
        200,
        {
            "object": "list",
            "data": [
                {**card, "id": "one", "created": 1700000000},
                {**card, "id": STRANGE, "created": 1700000000},
                {**card, "id": "two", "created": 0},
            ],
        },
    )


async def test_an_unknown_model_is_told_with_the_names_there_are(door: Envoy, session: ClientSession) -> None:
    assert await chat(session, door, 'three" %x') == (
        404,
        {
            "error": {
                "message": f"There is no model 'three\" %x' here; there are: one, {STRANGE}, two",
                "type": "invalid_request_error",
                "code": "model_not_found",
            }
        },
    )


async def test_what_a_stranger_calls_a_model_is_shown_in_part_only(door: Envoy, session: ClientSession) -> None:
    status, answer = await chat(session, door, "x" * 5000)
    assert status == 404
    assert answer["error"]["message"].count("x") == 128


NOTHING = ["{}", "[1]", '{"model": null}', '{"model": {"name": "one"}}', '{"x": {"model": "one"}}', ""]


@pytest.mark.parametrize("body", NOTHING)
async def test_a_request_without_a_model_is_told_so(door: Envoy, session: ClientSession, body: str) -> None:
    status, answer = await post(session, door, body)
    assert (status, answer["error"]["code"]) == (400, "model_missing")
    assert answer["error"]["message"] == f"The request names no model; set `model`, there are: one, {STRANGE}, two"


@pytest.mark.parametrize("body", ["{", "model=one", "[" * 100_000, "\0"])
async def test_a_body_that_is_not_json_is_told_so(door: Envoy, session: ClientSession, body: str) -> None:
    status, answer = await post(session, door, body)
    assert (status, answer["error"]["code"]) == (400, "invalid_json")


@pytest.mark.parametrize("path", ["/", "/metrics", "/v1", "/v1/nothing", "/v1/models/three", "/v1/../metrics"])
async def test_any_other_path_is_told_what_there_is(door: Envoy, session: ClientSession, path: str) -> None:
    status, answer = await get(session, door, path)
    assert (status, answer["error"]["code"]) == (404, "not_found")


async def test_a_path_cannot_climb_out_of_the_api(door: Envoy, session: ClientSession, engines: list[Engine]) -> None:
    status, answer = await post(session, door, '{"model": "one"}', path="/v1/%2e%2e/slots")
    assert (status, answer["error"]["code"]) == (404, "not_found")
    assert not engines[0].requests


async def test_an_image_of_five_megabytes_passes(door: Envoy, session: ClientSession) -> None:
    status, answer = await chat(session, door, "one", image="a" * 5_000_000)
    assert (status, answer["engine"]) == (200, "one")
    assert answer["bytes"] > 5_000_000


async def test_a_body_beyond_the_limit_is_refused(door: Envoy, session: ClientSession, engines: list[Engine]) -> None:
    status, answer = await chat(session, door, "one", image="a" * MOST_BODY_BYTES)
    assert (status, answer["error"]["code"]) == (413, "request_too_large")
    assert not engines[0].requests


async def test_a_streamed_answer_arrives_chunk_by_chunk(
    door: Envoy, session: ClientSession, engines: list[Engine]
) -> None:
    body = {"model": "one", "stream": True, "chunks": 3, "stepwise": True}
    engines[0].step.set()
    async with session.post(door.url + CHAT, json=body) as response:
        assert response.content_type == "text/event-stream"
        for number in range(3):
            # The engine sends no further chunk before this one has arrived.
            assert f"one{number} ".encode() in await response.content.readuntil(b"\n\n")
            engines[0].step.set()
        assert await response.content.read() == b"data: [DONE]\n\n"


async def test_an_engine_hears_that_its_client_has_left(
    door: Envoy, session: ClientSession, engines: list[Engine]
) -> None:
    body = {"model": "one", "stream": True, "chunks": 10_000, "pause": 0.01}
    async with session.post(door.url + CHAT, json=body) as response:
        await response.content.readuntil(b"\n\n")
        response.close()
    async with asyncio.timeout(60):
        while not engines[0].cut:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("origin", "may"),
    [
        ("http://localhost:3000", True),
        ("https://127.0.0.1", True),
        ("http://[::1]:8080", True),
        ("https://example.com", False),
        ("http://localhost.example.com", False),
        ("null", False),
    ],
)
async def test_pages_of_this_machine_may_ask_from_a_browser_and_no_others(
    door: Envoy, session: ClientSession, origin: str, may: bool
) -> None:
    ask = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    async with session.options(door.url + CHAT, headers=ask) as told:
        assert told.status == (204 if may else 404)
        assert told.headers.get("Access-Control-Allow-Origin") == (origin if may else None)
        assert told.headers.get("Access-Control-Allow-Headers") == ("*, authorization" if may else None)
    async with session.get(f"{door.url}/v1/models", headers={"Origin": origin}) as listed:
        assert (listed.status, len((await listed.json())["data"])) == (200, 3)
        assert listed.headers.get("Access-Control-Allow-Origin") == (origin if may else None)
