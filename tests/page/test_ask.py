"""What a question costs, and what becomes of answers that are none. The model is a server that does as it is told."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web

from modelyard.page.ask import AskInfo, CannotAsk, Message, Piece, Question, answer, describe
from tests.kube.scripted import answer as api_answer
from tests.kube.scripted import client_of, serving, stream, text
from tests.page.objects import stored

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.core.objects import Stored
    from tests.kube.scripted import Answer

Json = dict[str, Any]

HELLO = (Message("user", "Hello?"),)


def delta(**said: str) -> Json:
    return {"model": "yard", "choices": [{"delta": said}]}


def events(*parts: Json, end: bool = True) -> bytes:
    lines = [b"data: " + msgspec.json.encode(part) + b"\n\n" for part in parts]
    return b"".join([b": a comment\n\n", *lines, b"data: [DONE]\n\n" if end else b""])


def clock(*seconds: float) -> Any:
    return iter(seconds).__next__


def service_of(ip: str) -> Answer:
    return api_answer({"metadata": {"name": "chat", "namespace": "default"}, "spec": {"clusterIP": ip}})


def chat(port: int) -> Stored:
    endpoint = f"http://chat.default.svc.cluster.local:{port}/v1/chat/completions"
    return stored("InferenceService", "chat", {"modelRef": "yard"}, {"endpoint": endpoint})


async def said(model: Answer, *, ticks: Any = None) -> list[Piece]:
    """Ask a model on this machine, and return all pieces."""
    async with serving(service_of("127.0.0.1")) as api, client_of(api) as client, listening(model) as port:
        asked = answer(client, chat(port), Question("any", HELLO), ticks or clock(*range(100)))
        return [piece async for piece in asked]


@asynccontextmanager
async def listening(model: Answer) -> AsyncIterator[int]:
    runner = web.ServerRunner(web.Server(model))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def test_an_answer_comes_in_pieces_and_ends_with_its_figures() -> None:
    body = events(
        delta(role="assistant"), delta(content="I am "), delta(content="Yard"), {"usage": {"completion_tokens": 5}}
    )
    assert await said(text(body, headers={"x-modelyard-track": "canary"}), ticks=clock(0.0, 2.0, 4.0)) == [
        Piece(track="canary"),
        Piece(text="I am "),
        Piece(text="Yard"),
        Piece(model="yard", seconds_to_first=2.0, tokens=5, tokens_per_second=2.0, is_last=True),
    ]


async def test_a_server_that_does_not_count_tokens_is_measured_by_its_pieces() -> None:
    body = events(delta(reasoning_content="hm"), delta(content="a"), delta(content="b"), end=False)
    pieces = await said(text(body), ticks=clock(0.0, 1.0, 3.0))
    assert pieces[1] == Piece(thought="hm")
    assert pieces[-1] == Piece(model="yard", seconds_to_first=1.0, tokens=3, tokens_per_second=1.0, is_last=True)


async def test_lines_that_are_no_events_are_left_out() -> None:
    body = b"data: {\n\ndata: []\n\ndata: null\n\nnonsense\n\n" + events(delta(content="a"))
    assert [piece.text for piece in await said(text(body))] == ["", "a", ""]


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (text(b'{"error":{"message":"too long"}}', 400), "the server answers 400: too long"),
        (text(b'{"message":"no such model"}', 404), "the server answers 404: no such model"),
        (text(b"<h1>bad</h1>", 502), "the server answers 502: <h1>bad</h1>"),
        (text(events()), "the model ended its answer without a word"),
    ],
)
async def test_an_answer_that_is_none_says_why(model: Answer, error: str) -> None:
    last = (await said(model))[-1]
    assert (last.error, last.is_last) == (error, True)


async def test_a_stream_that_breaks_says_so_after_what_has_come() -> None:
    pieces = await said(stream(events(delta(content="half"), end=False), then="cut"))
    assert pieces[1] == Piece(text="half")
    assert pieces[-1].error.startswith("nothing answers at http://127.0.0.1:")


async def test_a_service_of_a_cluster_is_asked_through_the_api_server() -> None:
    async with serving(service_of("10.0.0.7"), text(events(delta(content="a")))) as api, client_of(api) as client:
        pieces = [piece async for piece in answer(client, chat(8080), Question("any", HELLO, "yard"))]
    assert [piece.text for piece in pieces] == ["", "a", ""]
    asked = api.asked[1]
    assert (asked.method, asked.path) == (
        "POST",
        "/api/v1/namespaces/default/services/chat:8080/proxy/v1/chat/completions",
    )
    assert (asked.json["model"], asked.json["stream"]) == ("yard", True)


async def test_a_gateway_offers_the_models_that_it_lists() -> None:
    gateway = stored("Gateway", "edge", status={"serviceUrl": "http://edge.default.svc.cluster.local:8080"})
    listed = api_answer({"data": [{"id": "b"}, {"id": "a"}]})
    async with serving(service_of("10.0.0.7"), listed) as api, client_of(api) as client:
        found = await describe(client, gateway)
    forward = "kubectl -n default port-forward service/edge 8080:8080"
    assert found == AskInfo(("a", "b"), "http://127.0.0.1:8080/v1", forward)
    assert api.asked[1].path == "/api/v1/namespaces/default/services/edge:8080/proxy/v1/models"


async def test_a_gateway_whose_list_makes_no_sense_says_so() -> None:
    gateway = stored("Gateway", "edge", status={"serviceUrl": "http://edge.default.svc.cluster.local:8080"})
    async with serving(service_of("10.0.0.7"), text(b"[1]")) as api, client_of(api) as client:
        assert (await describe(client, gateway)).problem == "its list of models cannot be read"


async def test_an_object_without_an_address_cannot_be_asked() -> None:
    async with serving(service_of("")) as api, client_of(api) as client:
        with pytest.raises(CannotAsk, match="Gateway edge has no address"):
            await describe(client, stored("Gateway", "edge"))
