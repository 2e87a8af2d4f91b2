"""What hosts are asked to do over real HTTP, and what every answer to a load or an unload means."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from msgspec.structs import replace

from modelyard.core.hosts import (
    LoadModel,
    LoadOptions,
    LoadTerms,
    UnloadModel,
)
from modelyard.core.reasons import Reason
from tests.net.askedhosts import at, hosts, loaded, replying
from tests.support.hostdaemon import GIB, HostDaemon
from tests.weights.fileserver import serving

ODD = "org/some model:3b%41?#é"


@pytest.mark.parametrize(
    ("status", "text", "ok", "reason"),
    [
        (200, "{}", True, Reason.ANSWERED),
        (201, "{}", True, Reason.ANSWERED),
        (202, '{"state": "loading"}', True, Reason.ANSWERED),
        (204, "", True, Reason.ANSWERED),
        (202, "", True, Reason.ANSWERED),
        (409, '{"error": {"code": "AlreadyLoaded", "message": "x"}}', True, Reason.ANSWERED),
        (409, '{"error": {"code": "Busy", "message": "loading another"}}', False, Reason.LOAD_FAILED),
        (400, '{"error": "bad"}', False, Reason.LOAD_FAILED),
        (400, '{"error": {"code": 400, "message": "model is already loaded"}}', True, Reason.ANSWERED),
        (422, "", False, Reason.LOAD_FAILED),
        (401, "", False, Reason.UNAUTHORIZED),
        (403, "<html>", False, Reason.UNAUTHORIZED),
        (404, "", False, Reason.LOAD_FAILED),
        (413, "", False, Reason.INSUFFICIENT_MEMORY),
        (507, '{"error": {"message": "needs 9 GiB"}}', False, Reason.INSUFFICIENT_MEMORY),
        (429, "", False, Reason.LOAD_FAILED),
        (500, "<html>", False, Reason.LOAD_FAILED),
        (503, "", False, Reason.LOAD_FAILED),
        (307, "", False, Reason.BAD_ANSWER),
        (200, "<html>", False, Reason.BAD_ANSWER),
        (202, '{"state": ', False, Reason.BAD_ANSWER),
    ],
)
async def test_every_answer_to_a_load_means_something(status: int, text: str, ok: bool, reason: Reason):
    answer = await loaded(replying(status=status, text=text))
    assert (answer.ok, answer.reason) == (ok, reason)
    assert ok or "; " in answer.message


async def test_a_host_that_asks_for_a_pause_gets_it():
    answer = await loaded(replying(status=429, headers={"Retry-After": "17"}))
    assert answer.value == {"retryAfter": 17.0}


async def test_the_words_of_a_host_reach_the_message():
    answer = await loaded(replying(status=507, text='{"error": {"code": "x", "message": "needs 9 GiB"}}'))
    assert "needs 9 GiB" in answer.message


async def test_a_load_names_the_model_its_owner_and_its_memory():
    bodies = []

    async def handler(request: web.Request) -> web.StreamResponse:
        bodies.append((request.method, request.path, await request.json()))
        return web.Response(status=202)

    assert (await loaded(handler)).ok
    assert bodies == [("POST", "/admin/models", {"model": "org/chat", "owner": "default/chat", "memory": 4 * GIB})]


async def test_a_load_says_how_and_on_which_terms_if_that_is_asked_for():
    bodies = []

    async def handler(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        return web.json_response({}, status=202)

    options, terms = LoadOptions(8192, 2), LoadTerms("high", eviction_protection=True, aliases=("chat",))
    async with serving(handler) as port:
        plain = LoadModel(at(port), "org/chat", "default/chat")
        for call in (plain, replace(plain, options=options, terms=terms)):
            assert (await hosts().load(call)).ok
    named = {"model": "org/chat", "owner": "default/chat"}
    told = {"options": {"contextSize": 8192, "parallel": 2}, "priority": "high", "evictionProtection": True}
    assert bodies == [named, {**named, **told, "aliases": ["chat"]}]


@pytest.mark.parametrize("model", ["org/chat", ODD, "a" * 300])
async def test_a_model_is_unloaded_whatever_its_id_holds(model: str):
    async with HostDaemon().serving() as daemon:
        daemon.shows(model, "ready")
        call = UnloadModel(at(daemon.port), model, "default/chat")
        assert [(await hosts().unload(call)).ok for _ in range(2)] == [True, True]
    assert (daemon.models, daemon.asked) == ({}, [f"unload {model}"] * 2)


async def test_a_daemon_without_delete_is_asked_by_post():
    asked = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(f"{request.method} {request.path}")
        return web.Response(status=405 if request.method == "DELETE" else 200)

    async with serving(handler) as port:
        assert (await hosts().unload(UnloadModel(at(port), "chat", "default/chat"))).ok
    assert asked == ["DELETE /admin/models/chat", "POST /admin/models/unload"]


async def test_a_host_is_changed_by_one_request_at_a_time():
    inside = most = 0

    async def handler(_: web.Request) -> web.StreamResponse:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.01)
        inside -= 1
        return web.Response(status=202)

    async with serving(handler) as port:
        asking = hosts()
        calls = (LoadModel(at(port), f"model-{number}", "default/chat") for number in range(5))
        answers = await asyncio.gather(*(asking.load(call) for call in calls))
    assert (most, [answer.ok for answer in answers]) == (1, [True] * 5)
