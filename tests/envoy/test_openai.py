"""The official client of OpenAI's API, as it is, against the door."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from openai import AsyncOpenAI, BadRequestError, InternalServerError, NotFoundError

from modelyard.kinds.shared.envoy_door import Backend, door_bootstrap, door_files
from tests.envoy.doors import STRANGE
from tests.envoy.proxies import Engine, Envoy, running_engines, running_envoy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
async def engines() -> AsyncIterator[list[Engine]]:
    async with running_engines("one", "two") as running:
        yield running


@pytest.fixture(scope="module")
async def door(engines: list[Engine], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Envoy]:
    files = door_files([Backend((engine.name, f"{STRANGE} {engine.name}"), engine.address) for engine in engines])
    async with running_envoy(tmp_path_factory.mktemp("door"), files, door_bootstrap) as running:
        yield running


@pytest.fixture
async def client(door: Envoy) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{door.url}/v1", api_key="none", max_retries=0, timeout=30) as running:
        yield running


async def test_it_lists_the_models(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["one", f"{STRANGE} one", "two", f"{STRANGE} two"]


@pytest.mark.parametrize("name", ["two", f"{STRANGE} two"])
async def test_it_finds_one_model(client: AsyncOpenAI, name: str) -> None:
    assert (await client.models.retrieve(name)).id == name


async def test_it_gets_an_answer(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model="two", messages=HELLO)
    assert answer.choices[0].message.content == "two"


async def test_it_streams_an_answer(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(model=f"{STRANGE} one", messages=HELLO, stream=True)
    assert [chunk.choices[0].delta.content async for chunk in stream] == ["one0 ", "one1 ", "one2 "]


async def test_it_understands_that_there_is_no_such_model(client: AsyncOpenAI) -> None:
    with pytest.raises(NotFoundError) as told:
        await client.chat.completions.create(model="three", messages=HELLO)
    assert told.value.code == "model_not_found"
    assert "there are: one, " in told.value.message


async def test_it_understands_that_no_model_was_named(client: AsyncOpenAI) -> None:
    with pytest.raises(BadRequestError) as told:
        await client.post("/chat/completions", body={"messages": HELLO}, cast_to=object)
    assert told.value.code == "model_missing"


async def test_it_understands_that_the_server_is_away(client: AsyncOpenAI, engines: list[Engine]) -> None:
    await engines[1].stop()
    try:
        with pytest.raises(InternalServerError) as told:
            await client.chat.completions.create(model="two", messages=HELLO)
    finally:
        await engines[1].start()
    assert (told.value.status_code, told.value.code) == (503, "server_unavailable")
