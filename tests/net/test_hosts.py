"""Hosts over real HTTP: what they report, what they are asked, and what every bad answer means."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from modelyard.core.conditions import Problem
from modelyard.core.hosts import (
    HostAddress,
    HostProbe,
    LoadModel,
    LoadOptions,
    LoadTerms,
    Protocol,
    SecretKey,
    UnloadModel,
)
from modelyard.core.reasons import Reason
from modelyard.net.hosts.hosts import Hosts
from modelyard.net.hosts.verdicts import HostFailed
from tests.net.certificates import issue, served
from tests.net.upstream import Names, guard
from tests.support.hostdaemon import GIB, HostDaemon
from tests.weights.fileserver import serving

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.core.checks import Answer

TOKEN = SecretKey("mac", "token")
AUTHORITY = SecretKey("mac", "ca.crt")
ODD = "org/some model:3b%41?#é"


class Secrets:
    """The Secrets of a namespace."""

    def __init__(self, **values: str) -> None:
        self.values = values

    async def read(self, namespace: str, wanted: SecretKey) -> str:
        assert namespace == "default"
        value = self.values.get(wanted.key.partition(".")[0])
        if value is None:
            raise HostFailed(Problem(Reason.SECRET_NOT_FOUND, "there is no such Secret", "create it"))
        return value


def hosts(secrets: Secrets | None = None, names: Names | None = None) -> Hosts:
    return Hosts(guard(names or Names(mac=[["127.0.0.1"]])), (secrets or Secrets()).read)


def at(port: int, scheme: str = "http", **fields: Any) -> HostAddress:
    return HostAddress("default", f"{scheme}://mac.example:{port}", **fields)


async def probed(handler: Any, protocol: Protocol = Protocol.INFERENCED) -> Answer:
    async with serving(handler) as port:
        return await hosts().probe(HostProbe(at(port, protocol=protocol)))


async def loaded(handler: Any, protocol: Protocol = Protocol.INFERENCED) -> Answer:
    async with serving(handler) as port:
        return await hosts().load(LoadModel(at(port, protocol=protocol), "org/chat", "default/chat", 4 * GIB))


def replying(response: dict[str, Any] | None = None, **others: Any) -> Any:
    """Return a handler: 200 for /healthz, this for everything else."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/healthz":
            return web.Response(text="ok")
        return web.Response(**(response or {}), **others)

    return handler


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


async def test_the_token_is_read_for_each_request_so_that_it_may_rotate():
    secrets = Secrets(token="first\n")
    async with HostDaemon(token="first").serving() as daemon:
        asking, check = hosts(secrets), HostProbe(at(daemon.port, token=TOKEN))
        assert (await asking.probe(check)).ok
        daemon.token = "second"
        assert (await asking.probe(check)).reason is Reason.UNAUTHORIZED
        secrets.values["token"] = "second"
        assert (await asking.probe(check)).ok
        del secrets.values["token"]
        assert (await asking.probe(check)).reason is Reason.SECRET_NOT_FOUND
        secrets.values["token"] = "two\nlines"
        assert (await asking.probe(check)).reason is Reason.SECRET_KEY_MISSING


async def test_a_redirect_never_takes_the_token_elsewhere():
    seen: list[str] = []

    async def thief(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization", ""))
        return web.json_response([])

    async with serving(thief) as elsewhere:
        moved = {"Location": f"http://mac.example:{elsewhere}/"}
        async with serving(replying(status=307, headers=moved)) as port:
            asking = hosts(Secrets(token="secret"))
            assert (await asking.probe(HostProbe(at(port, token=TOKEN)))).reason is Reason.BAD_ANSWER
            call = LoadModel(at(port, token=TOKEN), "chat", "default/chat")
            assert (await asking.load(call)).reason is Reason.BAD_ANSWER
    assert seen == []


async def test_a_certificate_must_be_of_the_given_authority_and_for_the_name(tmp_path: Path):
    authority, other = (issue(name, authority=True) for name in ("ours", "theirs"))
    tls = served(tmp_path, issue("mac.internal", authority))
    async with HostDaemon().serving(tls) as daemon:
        address = at(daemon.port, "https", authority=AUTHORITY)
        named = replace(address, server_name="mac.internal")
        right, wrong, none = (hosts(Secrets(ca=text)) for text in (authority.pem, other.pem, "nonsense"))
        assert (await right.probe(HostProbe(named))).ok
        assert "spec.tls" in (await right.probe(HostProbe(address))).message
        assert "spec.tls" in (await wrong.probe(HostProbe(named))).message
        assert (await none.probe(HostProbe(named))).reason is Reason.SECRET_KEY_MISSING
        assert "spec.tls" in (await hosts().probe(HostProbe(at(daemon.port, "https")))).message


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "10.0.0.1", "127.0.0.2", "100.64.0.7", "fe80::1", "::1", "0.0.0.0"]
)
async def test_an_address_that_was_not_allowed_is_refused_with_one_message(address: str):
    answer = await hosts(names=Names(mac=[[address]])).probe(HostProbe(at(1)))
    assert answer.reason is Reason.ADDRESS_NOT_ALLOWED
    assert answer.message == (
        "the host leads to an address that the operator does not dial; use a public address in spec.endpoint, or let "
        "an administrator add it to --host-networks"
    )


async def test_an_address_for_pods_has_to_be_allowed_as_well():
    async with HostDaemon().serving() as daemon:
        refused = await hosts().probe(HostProbe(at(daemon.port, published="10.96.0.1")))
        assert refused.reason is Reason.ADDRESS_NOT_ALLOWED
        public = await hosts().probe(HostProbe(at(daemon.port, published="8.8.8.8")))
        assert public.value["addresses"] == ("8.8.8.8",)


async def test_a_name_that_no_longer_resolves_keeps_the_address_from_before():
    lookups = [["127.0.0.1"]]

    async def resolve(host: str, port: int) -> list[str]:
        if not lookups:
            raise OSError("no such host")
        return lookups.pop()

    async with HostDaemon().serving() as daemon:
        asking, check = Hosts(replace(guard(), resolve=resolve), Secrets().read), HostProbe(at(daemon.port))
        answers = [await asking.probe(check) for _ in range(2)]
    assert [answer.value["addresses"] for answer in answers] == [("127.0.0.1",)] * 2


async def test_memory_that_moves_a_little_is_no_news():
    async with HostDaemon().serving() as daemon:
        asking, check = hosts(), HostProbe(at(daemon.port))
        first = await asking.probe(check)
        daemon.shows("small", "ready", memoryBytes=GIB // 8)
        second = await asking.probe(check)
        daemon.shows("small", "ready", memoryBytes=GIB)
        third = await asking.probe(check)
    assert [answer.value["free"] // GIB for answer in (first, second, third)] == [16, 16, 15]


async def test_a_host_that_hangs_is_given_up_within_its_time():
    async with HostDaemon().serving() as daemon:
        daemon.gate.clear()
        began = asyncio.get_running_loop().time()
        assert (await hosts().probe(HostProbe(at(daemon.port)))).reason is Reason.NO_ANSWER
        assert asyncio.get_running_loop().time() - began < 6
        daemon.gate.set()


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


async def test_ollama_pulls_a_model_and_keeps_it_in_memory():
    server = Recorded(api_pull={"status": "success"}, api_generate={"done": True, "done_reason": "load"})
    assert (await loaded(server, Protocol.OLLAMA)).ok
    assert server.asked == [
        ("POST /api/pull", {"model": "org/chat", "stream": False}),
        ("POST /api/generate", {"model": "org/chat", "keep_alive": -1, "stream": False}),
    ]


async def test_ollama_says_why_a_model_cannot_be_pulled():
    answer = await loaded(
        replying(status=500, text='{"error": "pull model manifest: file does not exist"}'), Protocol.OLLAMA
    )
    assert (answer.ok, "file does not exist" in answer.message) == (False, True)


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


@pytest.mark.parametrize("protocol", [Protocol.OLLAMA, Protocol.LLAMACPP])
async def test_another_server_is_not_taken_for_the_one_that_was_named(protocol: Protocol):
    assert (await probed(replying(status=404), protocol)).reason is Reason.BAD_ANSWER
    assert (await probed(replying(text='{"hello": 1}'), protocol)).reason is Reason.BAD_ANSWER
