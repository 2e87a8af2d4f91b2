"""What hosts report of themselves over real HTTP, and what every bad answer to a probe means."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from modelyard.core.hosts import MOST_MODELS, HostProbe
from modelyard.core.reasons import Reason
from tests.net.askedhosts import at, hosts, probed, replying
from tests.support.hostdaemon import GIB, HostDaemon


async def test_a_host_reports_its_models_its_memory_and_its_addresses():
    async with HostDaemon().serving() as daemon:
        daemon.shows("org/chat", "downloading", progress={"done": 37, "total": 100}, memoryBytes=4 * GIB, owner="a/b")
        daemon.shows("org/fast", "ready", ignoredOptions=["jinja", "cacheTypeK", 5, "jinja"])
        daemon.shows("org/broken", "failed", error={"code": "NotFound", "message": "no such\x1b[31m repository"})
        answer = await hosts().probe(HostProbe(at(daemon.port)))
    assert (answer.ok, answer.reason) == (True, Reason.ANSWERED)
    assert answer.value == {
        "addresses": ("127.0.0.1",),
        "models": (
            {"id": "org/broken", "state": "failed", "error": "no such[31m repository", "code": "NotFound"},
            {"id": "org/chat", "state": "downloading", "progress": 35, "memory": 4 * GIB, "owner": "a/b"},
            {"id": "org/fast", "ignored_options": ("cacheTypeK", "jinja")},
        ),
        "total": 16 * GIB,
        "free": 12 * GIB,
        "version": "test",
        "pressure": "normal",
    }


@pytest.mark.parametrize(
    ("said", "told"),
    [("normal", "normal"), ("warning", "warning"), ("Critical", "critical"), ("dire", None), (7, None), (None, None)],
)
async def test_a_host_says_how_short_of_memory_it_is(said: Any, told: str | None):
    answer = await probed(replying(text=json.dumps({"models": [], "host": {"memoryPressure": said}})))
    assert answer.value.get("pressure") == told


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([], ()),
        ([{"id": "a"}], ({"id": "a"},)),
        ({"models": [{"name": "a", "state": "ready", "more": 1}]}, ({"id": "a"},)),
        ({"data": [{"model": "a", "status": "loaded"}]}, ({"id": "a"},)),
        ({"models": [{"id": "a", "state": "warming"}]}, ({"id": "a", "state": "loading"},)),
        (
            {"models": [{"id": "a", "state": "loading", "progress": 0.5}]},
            ({"id": "a", "state": "loading", "progress": 50},),
        ),
        ({"models": [{"id": 7}, "nonsense", None, {"id": "a", "memoryBytes": -1}]}, ({"id": "a"},)),
        ({"models": [{"id": "b"}, {"id": "a"}, {"id": "b"}]}, ({"id": "a"}, {"id": "b"})),
        ({"models": [{"id": "", "name": "a", "state": None, "status": None}]}, ({"id": "a"},)),
        ({"models": [{"id": f"{number:03}"} for number in range(999)]}, tuple({"id": f"{n:03}"} for n in range(256))),
    ],
)
async def test_lists_are_read_in_every_shape_that_daemons_have(body: Any, expected: tuple[Any, ...]):
    answer = await probed(replying(text=json.dumps(body)))
    assert answer.ok
    assert answer.value.get("models", ()) == expected


async def test_a_daemon_without_admin_paths_is_asked_for_what_it_serves():
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/v1/models":
            return web.json_response({"object": "list", "data": [{"id": "org/chat", "object": "model"}]})
        return web.Response(status=200 if request.path == "/healthz" else 404)

    assert (await probed(handler)).value["models"] == ({"id": "org/chat"},)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ({"status": 401}, Reason.UNAUTHORIZED),
        ({"status": 403}, Reason.UNAUTHORIZED),
        ({"status": 302, "headers": {"Location": "http://169.254.169.254/"}}, Reason.BAD_ANSWER),
        ({"status": 500}, Reason.BAD_ANSWER),
        ({"status": 418}, Reason.BAD_ANSWER),
        ({"text": "<html>"}, Reason.BAD_ANSWER),
        ({"text": '{"models": ['}, Reason.BAD_ANSWER),
        ({"text": ""}, Reason.BAD_ANSWER),
        ({"text": '"models"'}, Reason.BAD_ANSWER),
        ({"text": "[" * 100_000}, Reason.BAD_ANSWER),
        ({"body": b'{"models": [{"id": "\xff"}]}'}, Reason.BAD_ANSWER),
        ({"text": "[" + " " * (1024 * 1024) + "]"}, Reason.BAD_ANSWER),
    ],
)
async def test_a_probe_that_is_answered_badly_says_what_to_do(response: dict[str, Any], reason: Reason):
    answer = await probed(replying(response))
    assert (answer.ok, answer.reason) == (False, reason)
    assert "; " in answer.message
    assert "169.254" not in answer.message


async def test_a_daemon_that_is_not_well_is_not_asked_further():
    asked = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(status=503)

    assert (await probed(handler)).reason is Reason.BAD_ANSWER
    assert asked == ["/healthz"]


async def test_memory_that_moves_a_little_is_no_news():
    async with HostDaemon().serving() as daemon:
        asking, check = hosts(), HostProbe(at(daemon.port))
        free = []
        for less in (0, GIB // 8, GIB):
            daemon.total -= less
            free.append((await asking.probe(check)).value["free"] // GIB)
    assert free == [16, 16, 14]


async def test_the_memory_of_a_small_model_that_has_gone_is_free_at_once():
    async with HostDaemon(total=GIB // 2).serving() as daemon:
        asking, check = hosts(), HostProbe(at(daemon.port))
        daemon.shows("small", "ready", memoryBytes=GIB // 8)
        before = await asking.probe(check)
        del daemon.models["small"]
        after = await asking.probe(check)
    assert (before.value["free"], after.value["free"]) == (3 * GIB // 8, GIB // 2)


async def test_a_host_that_hangs_is_given_up_within_its_time():
    async with HostDaemon().serving() as daemon:
        daemon.gate.clear()
        began = asyncio.get_running_loop().time()
        assert (await hosts().probe(HostProbe(at(daemon.port)))).reason is Reason.NO_ANSWER
        assert asyncio.get_running_loop().time() - began < 6
        daemon.gate.set()


async def test_of_too_many_models_those_that_have_an_owner_are_reported():
    many = [{"id": f"org/{number:03}"} for number in range(MOST_MODELS)]
    answer = await probed(replying(body=json.dumps([*many, {"id": "org/ours", "owner": "default/ours"}])))
    listed = [model["id"] for model in answer.value["models"]]
    assert (len(listed), listed[-1], listed == sorted(listed)) == (MOST_MODELS, "org/ours", True)
