"""What a question costs, and what becomes of answers that are none. The model is a server that does as it is told."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web

from modelyard.cluster.answer import NotAnswering
from modelyard.cluster.conversation import Message, Ways
from modelyard.page.ask import AskInfo, Part, Question, answer, describe
from tests.kube.scripted import answer as api_answer
from tests.kube.scripted import client_of, serving, status, stream, text
from tests.page.objects import stored

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Key
    from tests.kube.scripted import Answer

Json = dict[str, Any]

KEY = "sesame"
HELLO = (Message("user", "Hello?"),)
GATEWAY = stored("Gateway", "edge", status={"serviceUrl": "http://edge.default.svc.cluster.local:8080"})


def delta(**said: str) -> Json:
    return {"model": "yard", "choices": [{"delta": said}]}


def events(*parts: Json, end: bool = True) -> bytes:
    lines = [b"data: " + msgspec.json.encode(part) + b"\n\n" for part in parts]
    return b"".join([b": a comment\n\n", *lines, b"data: [DONE]\n\n" if end else b""])


def here(_service: Key, port: int) -> str:
    return f"127.0.0.1:{port}"


HERE = Ways(here)


def chat(port: int) -> Stored:
    endpoint = f"http://chat.default.svc.cluster.local:{port}/v1/chat/completions"
    return stored("InferenceService", "chat", {"modelRef": "yard"}, {"endpoint": endpoint})


def with_key(port: int) -> Stored:
    """`chat`, whose server takes its API key from a Secret."""
    source = {"secretKeyRef": {"name": "keys", "key": "chat"}}
    spec = {"modelRef": "yard", "env": [{"name": "LLAMA_API_KEY", "valueFrom": source}]}
    return stored("InferenceService", "chat", spec, chat(port).status)


async def guarded(request: web.BaseRequest) -> web.StreamResponse:
    """Answer those who show the key, and quote the others."""
    shown = request.headers.get("Authorization", "")
    if shown != f"Bearer {KEY}":
        return web.json_response({"error": {"message": f"{shown} opens nothing"}}, status=401)
    return web.Response(body=events(delta(content="open")), content_type="text/event-stream")


async def said(model: Answer) -> list[Part]:
    """Ask a model on this machine, and return all parts."""
    async with serving(text(b"", 500)) as api, client_of(api) as client, listening(model) as port:
        asked = answer(client, chat(port), Question("any", HELLO), HERE)
        parts = [part async for part in asked]
    assert api.asked == []
    return parts


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
        delta(role="assistant"),
        delta(reasoning_content="hm"),
        delta(content="Yard"),
        {"usage": {"completion_tokens": 5}},
    )
    *parts, last = await said(text(body, headers={"x-modelyard-track": "canary"}))
    assert parts == [Part(track="canary"), Part(thought="hm"), Part(text="Yard")]
    assert (last.model, last.tokens, last.is_last) == ("yard", 5, True)
    assert last.seconds_to_first is not None


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (text(b'{"error":{"message":"too long"}}', 400), "it says 400: too long"),
        (text(events()), "the model ended its answer without a word"),
        (text(events({"error": {"message": "out of memory"}})), "the model broke off: out of memory"),
    ],
)
async def test_an_answer_that_is_none_says_why(model: Answer, error: str) -> None:
    last = (await said(model))[-1]
    assert (last.error, last.is_last) == (error, True)


async def test_a_stream_that_breaks_says_so_after_what_has_come() -> None:
    parts = await said(stream(events(delta(content="half"), end=False), then="cut"))
    assert parts[1] == Part(text="half")
    assert parts[-1].error.startswith("the connection to http://127.0.0.1:")


async def test_a_server_that_is_away_is_named() -> None:
    async with serving(text(b"", 500)) as api, client_of(api) as client:
        (part,) = [part async for part in answer(client, chat(9), Question("any", HELLO), HERE)]
    assert part == Part(error="nothing answers at http://127.0.0.1:9", is_last=True)


async def test_a_service_of_a_cluster_is_asked_through_the_api_server() -> None:
    async with serving(text(events(delta(content="a")))) as api, client_of(api) as client:
        parts = [part async for part in answer(client, chat(8080), Question("any", HELLO, "yard"), Ways())]
    assert [part.text for part in parts] == ["", "a", ""]
    (asked,) = api.asked
    assert (asked.method, asked.path) == (
        "POST",
        "/api/v1/namespaces/default/services/chat:8080/proxy/v1/chat/completions",
    )
    assert (asked.json["model"], asked.json["stream"]) == ("yard", True)


async def test_a_user_without_the_right_to_ask_is_told_it() -> None:
    refused = status(403, "Forbidden", 'User "ann" cannot create resource "services/proxy"')
    async with serving(refused) as api, client_of(api) as client:
        (part,) = [part async for part in answer(client, chat(8080), Question("any", HELLO), Ways())]
    assert part.error == "you may not create services/proxy; ask an administrator of the cluster for this right"


async def test_a_gateway_offers_the_models_that_it_lists() -> None:
    listed = api_answer({"data": [{"id": "b"}, {"id": "a"}]})
    async with serving(listed) as api, client_of(api) as client:
        found = await describe(client, GATEWAY, Ways())
    forward = "kubectl -n default port-forward service/edge 8080:8080"
    assert found == AskInfo(("a", "b"), "http://127.0.0.1:8080/v1", forward)
    assert api.asked[0].path == "/api/v1/namespaces/default/services/edge:8080/proxy/v1/models"


@pytest.mark.parametrize("listed", [b"[1]", b"{}", b'{"data": [1]}', b"<html>"])
async def test_a_gateway_whose_list_makes_no_sense_says_so(listed: bytes) -> None:
    async with serving(text(listed)) as api, client_of(api) as client:
        assert (await describe(client, GATEWAY, Ways())).problem == "its list of models cannot be read"


async def test_the_address_on_this_machine_needs_no_forwarded_port() -> None:
    async with serving(text(b"", 500)) as api, client_of(api) as client:
        assert await describe(client, chat(9), HERE) == AskInfo(("chat",), "http://127.0.0.1:9/v1", "")


async def test_an_object_without_an_address_cannot_be_asked() -> None:
    async with serving(text(b"", 500)) as api, client_of(api) as client:
        with pytest.raises(NotAnswering, match="Gateway edge has no address"):
            await describe(client, stored("Gateway", "edge"), Ways())


async def test_a_server_with_a_key_is_shown_the_one_of_its_secret() -> None:
    """The key comes from the Secret that the object names, and reaches neither the browser nor the command."""
    secret = api_answer({"metadata": {"name": "keys"}, "data": {"chat": base64.b64encode(KEY.encode()).decode()}})
    async with serving(secret) as api, client_of(api) as client, listening(guarded) as port:
        parts = [part async for part in answer(client, with_key(port), Question("any", HELLO), HERE)]
        told = await describe(client, with_key(port), HERE)
    assert [part.text for part in parts] == ["", "open", ""]
    assert "get secret keys" in told.set_key
    assert KEY not in repr((parts, told))


async def test_a_key_that_the_object_does_not_name_has_another_way() -> None:
    last = (await said(guarded))[-1]
    assert last.error.endswith(
        "; it wants an API key that its spec does not name: ask it with `modelyard ask --key-secret`"
    )


async def test_a_wrong_key_is_not_quoted() -> None:
    secret = api_answer({"metadata": {"name": "keys"}, "data": {"chat": base64.b64encode(b"wrong").decode()}})
    async with serving(secret) as api, client_of(api) as client, listening(guarded) as port:
        (part,) = [part async for part in answer(client, with_key(port), Question("any", HELLO), HERE)]
    assert part.error == "it says 401: Bearer *** opens nothing"


async def test_a_user_who_may_not_read_the_key_is_told_it() -> None:
    refused = status(403, "Forbidden", 'User "ann" cannot get resource "secrets"')
    async with serving(refused) as api, client_of(api) as client:
        (part,) = [part async for part in answer(client, with_key(9), Question("any", HELLO), HERE)]
    assert part.error.startswith("its API key is in the Secret keys, which you may not read; ask for the right")


async def test_a_page_in_a_cluster_sends_no_key() -> None:
    secret = api_answer({"metadata": {"name": "keys"}, "data": {"chat": base64.b64encode(KEY.encode()).decode()}})
    async with serving(secret) as api, client_of(api) as client:
        (part,) = [part async for part in answer(client, with_key(8080), Question("any", HELLO), Ways())]
    assert part.error == "it wants an API key, which the API server does not pass on; ask it with `modelyard ask`"
