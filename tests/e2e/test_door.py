"""The official client of OpenAI finds every model of a machine at the one address that is printed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pytest
from openai import AsyncOpenAI, NotFoundError

from tests.e2e.yards import NAMED, Yard, command, in_time, service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUESTION: Final[list[Any]] = [{"role": "user", "content": "Which model are you?"}]


@pytest.fixture
async def client(yard: Yard) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=yard.door, api_key="none", max_retries=0, timeout=60) as opened:
        yield opened


async def test_every_model_is_listed_by_its_names(client: AsyncOpenAI) -> None:
    listed = [model.id async for model in client.models.list()]
    assert {"yard", "default/yard", "team/yard", "yard-green"} <= set(listed)
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("name", ["yard", "yard-green", "default/yard"])
async def test_a_question_goes_to_the_model_that_it_names(client: AsyncOpenAI, name: str) -> None:
    answer = await client.chat.completions.create(model=name, messages=QUESTION, temperature=0)
    assert (answer.choices[0].message.content or "").startswith(NAMED[name.removeprefix("default/")])


@pytest.mark.parametrize("name", NAMED)
async def test_an_answer_is_streamed(client: AsyncOpenAI, name: str) -> None:
    stream = await client.chat.completions.create(model=name, messages=QUESTION, temperature=0, stream=True)
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    assert len(pieces) > 2
    assert "".join(pieces).startswith(NAMED[name])


async def test_a_model_that_is_not_there_is_answered_with_those_that_are(client: AsyncOpenAI) -> None:
    with pytest.raises(NotFoundError) as told:
        await client.chat.completions.create(model="red", messages=QUESTION)
    assert told.value.code == "model_not_found"
    assert "There is no model 'red' here; there are: " in told.value.message
    assert "yard-green" in told.value.message


async def test_a_service_comes_to_the_door_and_leaves_it_while_all_goes_on(client: AsyncOpenAI, yard: Yard) -> None:
    await yard.apply(service("guest", "yard", extraArgs=["--threads", "1", "--alias", "visitor"]))
    await yard.until_ready("guest")
    for name in ("guest", "visitor"):
        assert (await yard.answer_at_door(name)).startswith(NAMED["yard"])
    await yard.kubectl("delete", "inferenceservice", "guest")
    left: set[str] = set()
    async with in_time(lambda: f"{left} is still listed"):
        while left := {"guest", "visitor"} & {model.id async for model in client.models.list()}:
            await asyncio.sleep(0.05)
    with pytest.raises(NotFoundError):
        await client.chat.completions.create(model="guest", messages=QUESTION)


async def test_status_names_the_address(yard: Yard) -> None:
    code, said, _ = await command("status", f"--dir={yard.path}")
    assert (code, f"All models at one address: {yard.door}" in said) == (0, True)
