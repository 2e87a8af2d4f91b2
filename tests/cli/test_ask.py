"""`modelyard ask` through the proxy of a real API server, to a server that streams."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from aiohttp import web

from modelyard.core.resources import POD, SERVICE
from tests.cli.running import examples, run
from tests.support.accounts import until_allowed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient

Json = dict[str, Any]

ENDPOINTS = "/api/v1/namespaces/team/endpoints"
WORDS = ("I ", "am ", "tiny.")


def own_address() -> str:
    """Return an address of this machine that is not loopback, which the API server would not pass requests on to."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


async def answer(request: web.Request) -> web.StreamResponse:
    asked = await request.json()
    if asked["messages"][0]["content"] == "Fail!":
        return web.json_response({"detail": "no room for the context"}, status=400)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
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


@pytest.fixture(scope="module")
async def served(cluster: Cluster, scene: Path) -> AsyncIterator[Path]:
    """The kubeconfig of a cluster in which the Service of `chat` leads to a server that streams."""
    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", answer), web.get("/v1/models", models)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, own_address(), 0)
    await site.start()
    admin = cluster.controlplane.admin
    try:
        await lead(admin, runner.addresses[0][1])
        yield scene
    finally:
        for path in (SERVICE.path("team", "chat"), f"{ENDPOINTS}/chat"):
            await admin.delete(path)
        await runner.cleanup()


async def lead(admin: RawClient, port: int) -> None:
    """Let the Service of `chat` lead to a port of this machine. The API server passes on only to addresses of pods."""
    address = own_address()
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


async def test_a_user_who_may_read_and_not_ask_is_told_the_right(cluster: Cluster, served: Path) -> None:
    """The right to use the proxy is one of its own."""
    admin, rbac = cluster.controlplane.admin, "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": ["*"], "resources": ["inferenceservices"], "verbs": ["get"]}]
    await admin.ensure(f"{rbac}/clusterroles", {"metadata": {"name": "reader"}, "rules": rules})
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    }
    await admin.ensure(f"{rbac}/clusterrolebindings", binding)
    what = {"verb": "get", "group": "inference.llmkube.dev", "resource": "inferenceservices"}
    await until_allowed(cluster.controlplane, "reader", what)
    reader = cluster.controlplane.client_kubeconfig("reader")
    ran = await run("ask", "isvc/chat", "Hello!", "-n", "team", kubeconfig=reader)
    assert (ran.code, ran.err) == (
        5,
        "you may not create services/proxy; ask an administrator of the cluster for this right\n",
    )
