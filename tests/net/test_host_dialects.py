"""Hosts that speak as Ollama and as the router of llama.cpp do, with their answers as they were recorded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from modelyard.core.hosts import (
    LoadModel,
    Protocol,
    UnloadModel,
)
from modelyard.core.reasons import Reason
from tests.net.askedhosts import at, hosts, loaded, probed, replying
from tests.support.hostdaemon import GIB
from tests.weights.fileserver import serving


class Recorded:
    """A server that answers by path with what was recorded, and keeps what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {f"/{path.replace('_', '/')}": body for path, body in answers.items()}
        self.asked: list[tuple[str, Any]] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        self.asked.append((f"{request.method} {request.path}", body))
        if request.path not in self.answers:
            return web.Response(status=404)
        return web.json_response(self.answers[request.path])


PS = {
    "models": [
        {
            "name": "llama3.2:latest",
            "model": "llama3.2:latest",
            "size": 3 * GIB,
            "size_vram": 3 * GIB,
            "expires_at": "x",
        },
        {"name": "qwen2.5:3b", "model": "qwen2.5:3b", "size": 2 * GIB},
    ]
}


async def test_ollama_reports_what_is_in_memory():
    answer = await probed(Recorded(api_version={"version": "0.5.1"}, api_ps=PS), Protocol.OLLAMA)
    assert answer.value == {
        "addresses": ("127.0.0.1",),
        "models": ({"id": "llama3.2", "memory": 3 * GIB}, {"id": "qwen2.5:3b", "memory": 2 * GIB}),
        "version": "0.5.1",
    }


PIN = ("POST /api/generate", {"model": "org/chat", "keep_alive": -1, "stream": False})
LOADED = {"done": True, "done_reason": "load"}


async def test_ollama_keeps_a_model_in_memory_that_it_has_and_asks_no_registry():
    server = Recorded(api_generate=LOADED)
    assert (await loaded(server, Protocol.OLLAMA)).ok
    assert server.asked == [PIN]


async def test_ollama_pulls_a_model_that_it_does_not_have():
    server = Recorded()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/api/pull":
            server.answers = {"/api/pull": {"status": "success"}, "/api/generate": LOADED}
        return await server(request)

    assert (await loaded(answer, Protocol.OLLAMA)).ok
    assert server.asked == [PIN, ("POST /api/pull", {"model": "org/chat", "stream": False}), PIN]


async def test_ollama_unloads_a_model_while_it_pulls_another():
    server, unloaded = Recorded(api_pull={"status": "success"}), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/api/pull":
            await unloaded.wait()
        return await server(request)

    async with serving(answer) as port, asyncio.timeout(60):
        asking, address = hosts(), at(port, protocol=Protocol.OLLAMA)
        loading = asyncio.create_task(asking.load(LoadModel(address, "org/chat", "default/chat")))
        while PIN not in server.asked:
            await asyncio.sleep(0.01)
        assert (await asking.unload(UnloadModel(address, "other", "default/other"))).ok
        unloaded.set()
        assert not (await loading).ok


async def test_ollama_keeps_a_model_of_embeddings_in_memory_by_the_path_that_it_has():
    server = Recorded(api_embed={"model": "org/chat", "embeddings": []})

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path != "/api/generate":
            return await server(request)
        return web.json_response({"error": '"org/chat" does not support generate'}, status=400)

    assert (await loaded(answer, Protocol.OLLAMA)).ok
    assert server.asked == [("POST /api/embed", {"model": "org/chat", "input": "", "keep_alive": -1})]


async def test_ollama_says_why_a_model_cannot_be_pulled():
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path != "/api/pull":
            return web.json_response({"error": "model 'org/chat' not found"}, status=404)
        return web.json_response({"error": "pull model manifest: file does not exist"}, status=500)

    said = await loaded(answer, Protocol.OLLAMA)
    assert (said.ok, "file does not exist" in said.message) == (False, True)


async def test_ollama_unloads_by_keeping_it_for_no_time():
    server = Recorded(api_generate={"done": True, "done_reason": "unload"})
    async with serving(server) as port:
        assert (await hosts().unload(UnloadModel(at(port, protocol=Protocol.OLLAMA), "chat", "default/chat"))).ok
    assert server.asked == [("POST /api/generate", {"model": "chat", "keep_alive": 0, "stream": False})]


ROUTED = {
    "data": [
        {"id": "a.gguf", "status": {"value": "loaded"}},
        {"id": "b.gguf", "status": {"value": "unloaded"}},
        {"id": "c.gguf", "status": {"value": "loading"}},
        {"id": "d.gguf", "status": {"value": "unloaded", "failed": True, "exit_code": 1}},
    ]
}


async def test_the_router_of_llama_cpp_reports_what_is_loaded_or_on_its_way():
    answer = await probed(Recorded(health={"status": "ok"}, models=ROUTED), Protocol.LLAMACPP)
    assert answer.value["models"] == (
        {"id": "a.gguf"},
        {"id": "c.gguf", "state": "loading"},
        {"id": "d.gguf", "state": "failed", "error": "its server ended with exit code 1"},
    )


async def test_the_router_of_llama_cpp_loads_and_unloads_by_name():
    server = Recorded(models_load={"success": True}, models_unload={"success": True})
    async with serving(server) as port:
        address = at(port, protocol=Protocol.LLAMACPP)
        assert (await hosts().load(LoadModel(address, "a.gguf", "default/chat"))).ok
        assert (await hosts().unload(UnloadModel(address, "a.gguf", "default/chat"))).ok
    assert server.asked == [("POST /models/load", {"model": "a.gguf"}), ("POST /models/unload", {"model": "a.gguf"})]


@pytest.mark.parametrize(
    ("status", "text", "ok"),
    [
        (400, '{"error": {"code": 400, "message": "model is not running"}}', True),
        (400, '{"error": {"code": 400, "message": "model is required"}}', False),
        (404, "", True),
        (409, "", False),
        (500, "<html>", False),
    ],
)
async def test_a_model_that_is_not_loaded_is_unloaded_however_a_host_says_so(status: int, text: str, ok: bool):
    async with serving(replying(status=status, text=text)) as port:
        call = UnloadModel(at(port, protocol=Protocol.LLAMACPP), "a.gguf", "default/chat")
        assert (await hosts().unload(call)).ok is ok


async def test_a_router_that_knows_many_models_is_asked_for_those_that_are_loaded():
    known = [{"id": f"{number}.gguf", "status": {"value": "unloaded"}} for number in range(1000)]
    loaded_last = {"data": [*known, {"id": "z.gguf", "status": {"value": "loaded"}}]}
    answer = await probed(Recorded(health={"status": "ok"}, models=loaded_last), Protocol.LLAMACPP)
    assert answer.value["models"] == ({"id": "z.gguf"},)


@pytest.mark.parametrize(("protocol", "path"), [(Protocol.OLLAMA, "/api/version"), (Protocol.LLAMACPP, "/health")])
async def test_another_server_is_not_taken_for_the_one_that_was_named(protocol: Protocol, path: str):
    none = await probed(replying(status=404), protocol)
    assert (none.reason, f"answered {path} with HTTP 404" in none.message) == (Reason.BAD_ANSWER, True)
    assert (await probed(replying(text='{"hello": 1}'), protocol)).reason is Reason.BAD_ANSWER
