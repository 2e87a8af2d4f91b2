"""`modelyard ask` through the proxy of a real API server, to a server that streams."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from aiohttp import web

from modelyard.cluster.answer import NotAnswering
from modelyard.cluster.api_key import read_key
from modelyard.cluster.conversation import Chat, Message, Ways, asked, reached
from modelyard.cluster.failures import NothingFound
from modelyard.cluster.session import Place, connected
from modelyard.cluster.target import Target
from modelyard.core.resources import POD, SECRET, SERVICE, Key
from modelyard.kinds.shared.envoy_router import TRACK_HEADER
from modelyard.kube.connection import Connection
from modelyard.kube.credentials import Identity, StaticCredentials
from modelyard.kube.transport import HttpTransport
from tests.cli.running import examples, run
from tests.support.own_network import own_address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient

Json = dict[str, Any]

ENDPOINTS = "/api/v1/namespaces/team/endpoints"
WORDS = ("I ", "am ", "tiny.")
KEY = "sesame"


async def answer(request: web.Request) -> web.StreamResponse:
    question = (await request.json())["messages"][0]["content"]
    if question == "Fail!":
        return web.json_response({"detail": "no room for the context"}, status=400)
    if question == "Open!" and (shown := request.headers.get("Authorization")) != f"Bearer {KEY}":
        return web.json_response({"error": {"message": f"{shown} opens nothing"}}, status=401)
    track = {TRACK_HEADER: "canary"} if question == "Which track?" else {}
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **track})
    await response.prepare(request)
    for word in WORDS:
        await response.write(
            f"data: {json.dumps({'model': 'tiny', 'choices': [{'delta': {'content': word}}]})}\n\n".encode()
        )
    usage = {"choices": [], "usage": {"completion_tokens": 3}}
    await response.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
    return response


async def models(request: web.Request) -> web.Response:
    del request
    return web.json_response({"data": [{"id": "tiny"}]})


async def serving(host: str = "127.0.0.1") -> tuple[web.AppRunner, int]:
    """Start a server that streams, and return it with its port."""
    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", answer), web.get("/v1/models", models)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, host, 0).start()
    return runner, runner.addresses[0][1]


@pytest.fixture(scope="module")
async def served(cluster: Cluster, scene: Path) -> AsyncIterator[Path]:
    """The kubeconfig of a cluster in which the Service of `chat` leads to a server that streams."""
    address = own_address()
    assert address, "without one, these tests are run by test_in_own_network"
    runner, port = await serving(address)
    admin = cluster.controlplane.admin
    try:
        await lead(admin, address, port)
        yield scene
    finally:
        for path in (SERVICE.path("team", "chat"), f"{ENDPOINTS}/chat"):
            await admin.delete(path)
        await runner.cleanup()


async def lead(admin: RawClient, address: str, port: int) -> None:
    """Let the Service of `chat` lead to a port of this machine. The API server passes on only to addresses of pods."""
    await admin.create(SERVICE.path("team"), {"metadata": {"name": "chat"}, "spec": {"ports": [{"port": 8080}]}})
    status = {"podIP": address, "podIPs": [{"ip": address}]}
    await admin.patch(POD.path("team", "chat-0", "status"), {"status": status})
    target = {"ip": address, "targetRef": {"kind": "Pod", "namespace": "team", "name": "chat-0"}}
    subset = {"addresses": [target], "ports": [{"port": port}]}
    await admin.create(ENDPOINTS, {"metadata": {"name": "chat"}, "subsets": [subset]})
    async with asyncio.timeout(60):
        while not await admin.answers("/api/v1/namespaces/team/services/chat:8080/proxy/v1/models"):
            await asyncio.sleep(0.05)


async def test_the_example_of_its_page_prints_what_the_page_says(served: Path) -> None:
    (example,) = examples("ask.md")
    answer_line, figures = example.out.splitlines()
    ran = await run(*example.words, kubeconfig=served)
    assert (ran.code, ran.out) == (0, f"{answer_line}\n")
    assert ran.err.partition(" after ")[0] == figures.partition(" after ")[0]
    assert "3 tokens in " in ran.err


async def test_json_and_yaml_have_the_answer_and_its_figures(served: Path) -> None:
    words = ("ask", "isvc/chat", "Which model are you?", "-n", "team", "-o")
    said = json.loads((await run(*words, "json", kubeconfig=served)).out)
    assert (said["object"], said["model"], said["answer"]) == ("InferenceService chat", "tiny", "I am tiny.")
    assert said["figures"]["tokens"] == 3
    assert 0 < said["figures"]["firstTokenSeconds"] <= said["figures"]["seconds"]
    assert yaml.safe_load((await run(*words, "yaml", kubeconfig=served)).out)["answer"] == "I am tiny."


async def test_wide_names_the_object_and_the_model(served: Path) -> None:
    ran = await run("ask", "chat", "Hello!", "-n", "team", "-o", "wide", kubeconfig=served)
    assert ran.err.endswith("(InferenceService chat, model tiny)\n")


async def test_the_track_of_a_canary_that_answered_is_told(served: Path) -> None:
    words = ("ask", "chat", "Which track?", "-n", "team")
    assert ", by the canary\n" in (await run(*words, kubeconfig=served)).err
    assert json.loads((await run(*words, "-o", "json", kubeconfig=served)).out)["track"] == "canary"


async def test_a_server_that_wants_a_key_is_told_so_and_how_to_name_one(served: Path) -> None:
    ran = await run("ask", "chat", "Open!", "-n", "team", kubeconfig=served)
    assert ran.code == 1
    assert "it wants an API key: name one with --key-file or --key-secret" in ran.err


@pytest.mark.parametrize(("key", "opens"), [(KEY, True), ("wrong", False)])
async def test_a_key_is_shown_to_a_server_that_is_reached_without_the_api_server(key: str, opens: bool) -> None:
    runner, port = await serving()
    nowhere = HttpTransport(Connection("http://127.0.0.1:1", StaticCredentials(Identity())))
    target = Target(Key("team", "chat"), 8080, "/v1", "tiny")
    try:
        async with reached(nowhere, target, Ways(lambda *_: f"127.0.0.1:{port}"), key) as way:
            with nullcontext() if opens else pytest.raises(NotAnswering, match="it says 401"):
                async with asked(way, Chat("tiny", (Message("user", "Open!"),))) as reply:
                    assert [piece.text async for piece in reply.pieces()] == [*WORDS]
    finally:
        await nowhere.close()
        await runner.cleanup()


async def test_without_kubectl_or_a_way_the_key_stays_here(
    served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server keeps keys to itself, so kubectl has to forward a port; nothing does that here."""
    (tmp_path / "key").write_text(f"{KEY}\n")
    words = ("ask", "chat", "Open!", "-n", "team", "--key-file", str(tmp_path / "key"))
    monkeypatch.setenv("PATH", str(tmp_path))
    without = await run(*words, kubeconfig=served)
    assert without.code == 1
    assert "kubectl is not installed" in without.err
    assert KEY not in without.err


async def test_a_key_of_a_secret_is_read_with_the_rights_of_the_user(cluster: Cluster, served: Path) -> None:
    admin, secrets = cluster.controlplane.admin, SECRET.path("team")
    data = {"one": base64.b64encode(KEY.encode()).decode()}
    await admin.create(secrets, {"metadata": {"name": "key"}, "data": data})
    try:
        async with connected(Place(served, namespace="team"), {}) as session:
            assert [await read_key(session, where) for where in ("key", "key/one")] == [KEY, KEY]
            with pytest.raises(NothingFound, match="has no two; write NAME/ENTRY"):
                await read_key(session, "key/two")
            with pytest.raises(NothingFound, match="there is no Secret none"):
                await read_key(session, "none")
    finally:
        await admin.delete(SECRET.path("team", "key"))


async def test_what_a_model_refuses_is_told_with_the_way_to_find_out_more(served: Path) -> None:
    ran = await run("ask", "chat", "Fail!", "-n", "team", kubeconfig=served)
    assert (ran.code, ran.out) == (1, "")
    assert "InferenceService chat does not answer: it says 400" in ran.err
    assert "no room for the context" in ran.err
    assert ran.err.endswith("see `modelyard explain inferenceservice/chat -n team`\n")


async def test_an_object_without_an_endpoint_does_not_answer(served: Path) -> None:
    ran = await run("ask", "large", "Hello!", "-n", "team", kubeconfig=served)
    assert ran.code == 1
    assert "InferenceService large does not answer" in ran.err


async def test_what_is_missing_is_said_with_its_exit_code(
    served: Path, undefined: Path, stranger: Path, elsewhere: Path
) -> None:
    words = ("ask", "isvc/none", "Hello!", "-n", "team")
    codes = [(await run(*words, kubeconfig=one)).code for one in (served, elsewhere, stranger, undefined)]
    assert codes == [3, 4, 5, 6]
    unnamed = await run("ask", "none", "Hello!", "-n", "team", kubeconfig=served)
    assert unnamed.code == 3
    assert unnamed.err.startswith("nothing that answers questions is called none in the namespace team")
    silent = await run("ask", "model/tiny", "Hello!", "-n", "team", kubeconfig=served)
    assert silent.err.startswith("a Model answers no questions; ask one of Gateway, ")


async def test_without_a_kind_it_is_said_too_that_no_kind_is_defined(undefined: Path) -> None:
    ran = await run("ask", "none", "Hello!", "-n", "team", kubeconfig=undefined)
    assert ran.code == 6
    assert ran.err.endswith("are not defined on this cluster; install Modelyard with `modelyard install`\n")


@pytest.mark.parametrize("target", ["isvc/chat", "chat"])
async def test_a_user_who_may_read_and_not_ask_is_told_the_right(served: Path, reader: Path, target: str) -> None:
    """The right to use the proxy is one of its own, and other kinds that may answer need not be seen."""
    ran = await run("ask", target, "Hello!", "-n", "team", kubeconfig=reader)
    assert (ran.code, ran.err) == (
        5,
        "you may not create services/proxy; ask an administrator of the cluster for this right\n",
    )
