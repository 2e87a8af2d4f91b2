"""The page against the real API server: who is let in, what is refused, and what is told of changes."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from modelyard.kube.config import in_cluster_as
from modelyard.kube.connection import Connection
from modelyard.local.ports import free_ports
from modelyard.page.server import PageSettings, serving_in_cluster
from tests.page.servers import Page, entered, running_page, visiting
from tests.support.accounts import until_allowed
from tests.support.calls import Match
from tests.support.faultproxy import fault_proxy
from tests.support.faults import FOREVER, Answer, Rule

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from tests.page.servers import Visitor

Json = dict[str, Any]

MARKUP = "<img src=x onerror=alert(1)>"
MODELS = "models.inference.llmkube.dev"


@pytest.fixture(scope="module")
async def page(cluster: Cluster, installed: Path) -> AsyncIterator[Page]:
    """A page that only shows."""
    async with running_page(cluster.kubeconfig) as running:
        yield running


@pytest.fixture(scope="module")
async def visitor(page: Page) -> AsyncIterator[Visitor]:
    """The one visitor who has come with the printed address."""
    async with entered(page) as came:
        yield came


@pytest.fixture(scope="module")
async def editor(cluster: Cluster, installed: Path) -> AsyncIterator[Visitor]:
    """A visitor of a page that was started with --edit."""
    async with running_page(cluster.kubeconfig, may_edit=True) as running, entered(running) as came:
        yield came


def model(namespace: str, name: str = "yard", source: str = "https://models.example/yard.gguf") -> Json:
    return {
        "apiVersion": "inference.llmkube.dev/v1alpha1",
        "kind": "Model",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"source": source},
    }


async def create(cluster: Cluster, namespace: str, *names: str) -> None:
    for name in names:
        path = f"/apis/inference.llmkube.dev/v1alpha1/namespaces/{namespace}/models"
        await cluster.controlplane.admin.create(path, model(namespace, name))


async def test_a_stranger_sees_nothing_but_how_to_get_in(page: Page, visitor: Visitor) -> None:
    async with visiting(page.origin) as stranger:
        status, body = await stranger.get("/")
        assert (status, b"modelyard page" in body) == (401, True)
        for path in ("/api/stream", "/api/settings", "/api/object?id=a", "/api/starts", "/api/log", "/api/ask?id=a"):
            assert (await stranger.get(path))[0] == 401, path
        for path in ("/api/ask", "/api/edit", "/api/leave"):
            assert (await stranger.post(path, {}))[0] == 401, path
        assert (await stranger.get("/?token=guess"))[0] == 401
    assert (await visitor.get("/"))[0] == 200


async def test_the_printed_address_lets_in_once(page: Page, visitor: Visitor) -> None:
    at = urlsplit(page.address)
    async with visiting(page.origin) as second:
        assert (await second.get(f"/?{at.query}"))[0] == 401
        assert (await second.get("/api/settings"))[0] == 401
    assert (await visitor.get("/api/settings"))[0] == 200


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(cluster: Cluster, installed: Path) -> None:
    async with running_page(cluster.kubeconfig) as fresh, aiohttp.ClientSession() as session:
        async with session.get(fresh.address) as answer:
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie


async def test_a_foreign_name_for_this_machine_is_refused(visitor: Visitor) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1"):
        for path in ("/", "/api/stream", "/static/main.js"):
            assert (await visitor.get(path, Host=host))[0] == 421, (host, path)


async def test_requests_of_other_sites_are_refused_though_they_carry_the_cookie(visitor: Visitor) -> None:
    foreign = {"Origin": "https://evil.example"}
    assert (await visitor.get("/api/stream", **foreign))[0] == 403
    assert (await visitor.get("/api/settings", **{"Sec-Fetch-Site": "cross-site"}))[0] == 403
    assert (await visitor.post("/api/ask", {}, **foreign))[0] == 403
    assert (await visitor.post("/api/edit", {}, **foreign))[0] == 403
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "eA==",
    }
    assert (await visitor.get("/api/stream", **foreign, **upgrade))[0] == 403
    async with visitor.http.post(f"{visitor.origin}/api/ask", json={}) as answer:
        assert answer.status == 403, "a request that changes something must name its origin"
    async with visitor.http.post(
        f"{visitor.origin}/api/ask", data="{}", headers={"Origin": visitor.origin, "Content-Type": "text/plain"}
    ) as answer:
        assert answer.status == 415, "a form of another site can send this type"


async def test_no_answer_may_be_framed_guessed_or_run_code_of_others(visitor: Visitor) -> None:
    for path in ("/", "/static/main.js", "/api/settings", "/api/nothing", "/static/../server.py"):
        async with visitor.http.get(f"{visitor.origin}{path}") as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Cache-Control"] == "no-store"


async def test_every_page_names_its_icon_so_that_browsers_ask_for_no_other(visitor: Visitor) -> None:
    for file in (resources.files("modelyard.page") / "static").iterdir():
        if file.name.endswith(".html"):
            assert 'rel="icon" href="/static/icon.svg"' in file.read_text(), file.name
    assert (await visitor.get("/static/icon.svg"))[0] == 200


async def test_what_is_asked_for_in_vain_says_so(visitor: Visitor) -> None:
    assert await visitor.json("/api/object?id=Model/a/none") == {"error": "It does not exist (any more)."}
    assert await visitor.get("/api/log?namespace=kube-system&pod=etcd&container=etcd") == (
        200,
        b"there is no such pod of an object of Modelyard\n",
    )
    assert (await visitor.get("/static/none.js"))[0] == 404
    status, body = await visitor.post("/api/ask", {"id": 3})
    assert (status, "cannot be read" in body) == (400, True)


async def test_every_change_is_told(visitor: Visitor, cluster: Cluster, namespace: str) -> None:
    key = f"Model/{namespace}/first"
    following = asyncio.create_task(visitor.until(lambda rows: key in rows))
    await create(cluster, namespace, "first")
    assert (await following)[key]["state"] == "working"
    gone = asyncio.create_task(visitor.until(lambda rows: seen.update(rows) or (key in seen and key not in rows)))
    seen: Json = {}
    while key not in seen:
        await asyncio.sleep(0.01)
    await cluster.controlplane.admin.delete(f"/apis/inference.llmkube.dev/v1alpha1/namespaces/{namespace}/models/first")
    await gone


async def test_text_of_servers_stays_text(visitor: Visitor, cluster: Cluster, namespace: str) -> None:
    await create(cluster, namespace, "first")
    path = f"/apis/inference.llmkube.dev/v1alpha1/namespaces/{namespace}/models/first"
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": "ModelSourceNotFound",
        "message": MARKUP,
        "lastTransitionTime": "2026-11-16T10:00:00Z",
    }
    status = {"phase": "Failed", "observedGeneration": 1, "conditions": [ready]}
    await cluster.controlplane.admin.patch(f"{path}/status", {"status": status})
    key = f"Model/{namespace}/first"
    rows = await visitor.until(lambda rows: rows.get(key, {}).get("state") == "attention")
    assert rows[key]["message"] == MARKUP
    shown = await visitor.json(f"/api/object?id={key}")
    assert shown["why"]["cause"] == MARKUP
    assert [turn["reason"] for turn in shown["history"]] == ["ModelSourceNotFound"]


async def test_a_page_without_edit_changes_nothing(visitor: Visitor, cluster: Cluster, namespace: str) -> None:
    await create(cluster, namespace, "first")
    key = f"Model/{namespace}/first"
    await visitor.until(lambda rows: key in rows)
    shown = await visitor.json(f"/api/object?id={key}")
    assert shown["actions"] == []
    edit = {"id": key, "uid": shown["uid"], "action": "delete"}
    status, body = await visitor.post("/api/edit", edit)
    assert (status, "--edit" in body) == (403, True)


async def test_a_page_with_edit_scales_pauses_and_deletes_exactly_what_was_seen(
    editor: Visitor, cluster: Cluster, namespace: str
) -> None:
    admin, base = cluster.controlplane.admin, f"/apis/inference.llmkube.dev/v1alpha1/namespaces/{namespace}"
    body = {
        "apiVersion": "inference.llmkube.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": {"modelRef": "yard", "replicas": 1},
    }
    await admin.create(f"{base}/inferenceservices", body)
    key, path = f"InferenceService/{namespace}/chat", f"{base}/inferenceservices/chat"
    await editor.until(lambda rows: key in rows)
    shown = await editor.json(f"/api/object?id={key}")
    assert shown["actions"] == ["scale", "pause", "delete"]
    seen = {"id": key, "uid": shown["uid"]}
    assert await editor.post("/api/edit", {**seen, "action": "scale", "replicas": 3}) == (200, "{}")
    assert await editor.post("/api/edit", {**seen, "action": "pause"}) == (200, "{}")
    stored = await admin.get(path)
    assert stored["spec"]["replicas"] == 3
    assert stored["metadata"]["annotations"]["modelyard.dev/paused"] == "true"
    assert await editor.post("/api/edit", {**seen, "action": "resume"}) == (200, "{}")
    assert "modelyard.dev/paused" not in (await admin.get(path))["metadata"].get("annotations", {})
    another = {"id": key, "uid": "00000000-0000-0000-0000-000000000000", "action": "delete"}
    assert (await editor.post("/api/edit", another))[0] == 502
    assert (await editor.post("/api/edit", {**seen, "action": "scale", "replicas": -1}))[0] == 400
    assert await editor.post("/api/edit", {**seen, "action": "delete"}) == (200, "{}")
    assert not await admin.answers(path)


async def test_a_user_without_rights_is_told_which_are_missing(
    cluster: Cluster, installed: Path, namespace: str
) -> None:
    admin = cluster.controlplane.admin
    await admin.ensure(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "nobody"}})
    kubeconfig = await cluster.controlplane.service_account_kubeconfig(namespace, "nobody")
    async with running_page(kubeconfig) as running, entered(running) as came:
        update = await until_told(came, lambda update: update.get("synced"))
        assert "rows" not in update
        assert update["troubles"] == [
            "everything: you lack the right to list and watch; ask for it, or name a namespace with -n"
        ]


async def test_rows_that_may_be_old_are_told_until_their_watch_is_back(
    cluster: Cluster, installed: Path, namespace: str, tmp_path: Path
) -> None:
    async with (
        fault_proxy(cluster.controlplane, tmp_path) as proxy,
        running_page(proxy.kubeconfig_for(installed), namespace=namespace) as running,
        entered(running) as came,
    ):
        await until_told(came, lambda update: update.get("synced"))
        proxy.arm(Rule(Match(resource=MODELS), Answer(503), times=FOREVER))
        assert proxy.close_watches(Match(resource=MODELS)) == 1
        told = await until_told(came, lambda update: update.get("troubles"))
        assert [line.partition(":")[0] for line in told["troubles"]] == [MODELS]
        await create(cluster, namespace, "unseen")
        proxy.disarm()
        assert await came.until(lambda rows: f"Model/{namespace}/unseen" in rows)
        await until_told(came, lambda update: update.get("troubles") == [])


async def until_told(visitor: Visitor, holds: Callable[[Json], Any]) -> Json:
    """Follow the stream until something holds of an update, and return it."""
    async with asyncio.timeout(60):
        async for update in visitor.updates():
            if holds(update):
                return update
    raise AssertionError("the stream has ended")


async def test_in_a_cluster_each_user_sees_what_the_own_token_shows(
    cluster: Cluster, installed: Path, namespace: str
) -> None:
    admin, server = cluster.controlplane.admin, urlsplit(cluster.controlplane.url)
    tokens = {name: await token_of(cluster, namespace, name) for name in ("reader", "nobody")}
    await allow_models(cluster, namespace, "reader")
    await create(cluster, namespace, "first")
    port, authority = free_ports(1)[0], cluster.controlplane.ca
    env = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
    settings = PageSettings(port=port, namespace=namespace, origins=("http://localhost:1",))
    async with serving_in_cluster(partial(in_cluster_as, env, authority=authority), settings):
        origin, host = f"http://127.0.0.1:{port}", {"Host": "localhost:1"}
        async with visiting(origin, **host) as stranger:
            status, body = await stranger.get("/")
            assert (status, b"Bearer token" in body, b'role="alert"' in body) == (401, True, False)
            assert await sign_in(stranger, "invented") == (401, "The cluster does not accept this token.")
            assert (await stranger.get("/api/stream", Authorization="Bearer invented"))[0] == 401
            assert (await stranger.get("/api/stream", **{"X-Remote-User": "system:admin"}))[0] == 401
        key = f"Model/{namespace}/first"
        async with visiting(origin, Authorization=f"Bearer {tokens['reader']}", **host) as reader:
            assert key in await reader.until(lambda rows: key in rows)
            told = await reader.json("/api/settings")
            assert told["user"] == f"system:serviceaccount:{namespace}:reader"
            for kind, said in {"Model": "It does not exist", "MCP": "Whether it exists cannot be seen"}.items():
                assert (await reader.json(f"/api/object?id={kind}/{namespace}/none"))["error"].startswith(said)
            shown = await reader.json(f"/api/object?id={key}")
            assert shown["why"]["commands"] == ["modelyard doctor", f"kubectl describe {MODELS} first -n {namespace}"]
            events = "events.events.k8s.io"
            assert (
                f"{events}: you may not list {events}; ask an administrator of the cluster for this right"
                in (shown["problems"])
            )
        async with visiting(origin, Authorization=f"Bearer {tokens['nobody']}", **host) as nobody:
            update = await until_told(nobody, lambda update: update.get("synced"))
            assert "rows" not in update
    assert await admin.answers(f"/apis/inference.llmkube.dev/v1alpha1/namespaces/{namespace}/models/first")


async def test_a_cluster_that_cannot_be_asked_who_signs_in_is_told_on_the_page() -> None:
    port = free_ports(1)[0]
    async with (
        serving_in_cluster(
            partial(Connection, "http://127.0.0.1:1"), PageSettings(port=port, origins=("http://localhost:1",))
        ),
        visiting(f"http://127.0.0.1:{port}", Host="localhost:1") as visitor,
    ):
        status, said = await sign_in(visitor, "any")
        assert (status, said.partition(": Cannot")[0]) == (
            502,
            "The cluster cannot be asked: the API server cannot be reached",
        )


async def sign_in(visitor: Visitor, token: str) -> tuple[int, str]:
    """Send the form of the page that signs in, and return the beginning of what it says then."""
    async with visitor.http.post(
        f"{visitor.origin}/login", data={"token": token}, headers={"Origin": "http://localhost:1"}
    ) as answer:
        said = re.search(r'role="alert">([^.]*\.?)', await answer.text())
        return answer.status, said[1] if said else ""


async def token_of(cluster: Cluster, namespace: str, name: str) -> str:
    admin = cluster.controlplane.admin
    await admin.ensure(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    made = await admin.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", {"spec": {}})
    return str(made["status"]["token"])


async def allow_models(cluster: Cluster, namespace: str, name: str) -> None:
    """Let a service account look at the Models of a namespace, and at nothing else."""
    admin, group = cluster.controlplane.admin, "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["inference.llmkube.dev"], "resources": ["models"], "verbs": ["get", "list", "watch"]}
    base = f"/apis/{group}/v1/namespaces/{namespace}"
    await admin.create(f"{base}/roles", {"metadata": {"name": name}, "rules": [rule]})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
    }
    await admin.create(f"{base}/rolebindings", binding)
    what = {"verb": "list", "group": "inference.llmkube.dev", "resource": "models", "namespace": namespace}
    await until_allowed(cluster.controlplane, f"system:serviceaccount:{namespace}:{name}", what)
