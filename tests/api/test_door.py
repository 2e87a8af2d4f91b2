"""With `--door` each namespace that serves models has one address for them, and without models it has none."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import CONFIG_MAP, DEPLOYMENT, EVENT, SERVICE
from modelyard.kinds.door.api import NAME
from modelyard.kinds.door.api import RESOURCE as NAMESPACE
from modelyard.kinds.shared.envoy import ROUTES_FILE
from tests.conftest import run_kubectl
from tests.support.operators import ROOT, running_operator
from tests.support.recorder import recording
from tests.support.services import SERVICES, create_pair, create_service, until_service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.mcpserver import McpServers
    from tests.support.recorder import Recorder

Json = dict[str, Any]

SPOILT = "{}"
PARTS = (CONFIG_MAP, DEPLOYMENT, SERVICE)


@pytest.fixture
async def rights(cluster: Cluster, installed: Path) -> AsyncIterator[Path]:
    """The operator has the rights for doors as well; returns its kubeconfig."""
    file = str(ROOT / "deploy" / "rbac-door.yaml")
    await run_kubectl(cluster, "apply", "--server-side", "-f", file)
    yield installed
    await run_kubectl(cluster, "delete", "-f", file)


@pytest.fixture
async def recorder(cluster: Cluster, installed: Path, namespace: str) -> AsyncIterator[Recorder]:
    async with recording(cluster.controlplane.admin, (SERVICES, *PARTS), namespace) as running:
        yield running
    running.assert_invariants()


@pytest.fixture
async def door(rights: Path, mcp_servers: McpServers, namespace: str, tmp_path: Path) -> AsyncIterator[None]:
    """An operator that serves doors, under its own role."""
    settings = {"POLICY": '{"door": true}', "WATCH_NAMESPACE": namespace}
    async with running_operator(rights, mcp_servers.port, tmp_path / "operator.log", **settings):
        yield


def models(routes: Json | None) -> set[str]:
    """Return the models that the routes of a door list."""
    if routes is None or routes["data"][ROUTES_FILE] == SPOILT:
        return set()
    table = json.loads(routes["data"][ROUTES_FILE])["resources"][0]["virtual_hosts"][0]["routes"]
    # For a page in a browser there is one more, which lists the same.
    listed = next(route for route in table if route["match"].get("path") == "/v1/models")
    text = listed["direct_response"]["body_format"]["text_format_source"]["inline_string"]
    return {model["id"] for model in json.loads(text)["data"]}


async def until_listed(recorder: Recorder, namespace: str, *names: str) -> Json:
    found = await recorder.wait_for(CONFIG_MAP, namespace, NAME, lambda item: models(item) == set(names))
    assert found
    return found


def is_available(deployment: Json | None) -> bool:
    return bool(deployment and deployment.get("status", {}).get("availableReplicas"))


@pytest.mark.usefixtures("door")
async def test_a_door_comes_with_the_first_model_follows_the_others_and_goes_with_the_last(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    before = await admin.get(NAMESPACE.path(name=namespace))
    await create_pair(admin, namespace)
    await until_listed(recorder, namespace, "chat", "tiny")
    opened = await recorder.wait_for(DEPLOYMENT, namespace, NAME, is_available)
    await until_service(recorder, namespace)
    engine = await admin.get(SERVICE.path(namespace, "chat"))
    routes = await admin.get(CONFIG_MAP.path(namespace, NAME))
    assert f"{engine['spec']['clusterIP']}:8080" in routes["data"][ROUTES_FILE]
    assert [owner["uid"] for owner in routes["metadata"]["ownerReferences"]] == [before["metadata"]["uid"]]

    await create_service(admin, namespace, "more", extraArgs=["--alias", "another"])
    await until_listed(recorder, namespace, "chat", "tiny", "more", "another")
    await until_service(recorder, namespace, "more")
    assert opened
    same = await admin.get(DEPLOYMENT.path(namespace, NAME))
    assert same["metadata"]["generation"] == opened["metadata"]["generation"], "new routes restart no pod"

    await check_mending(admin, namespace, recorder)

    await admin.delete(SERVICES.path(namespace, "more"))
    await until_listed(recorder, namespace, "chat", "tiny")
    await admin.delete(SERVICES.path(namespace, "chat"))
    for part in PARTS:
        await recorder.wait_for(part, namespace, NAME, lambda item: item is None)
    after = await admin.get(NAMESPACE.path(name=namespace))
    assert after == before, "the Namespace itself is never written to"


async def check_mending(admin: RawClient, namespace: str, recorder: Recorder) -> None:
    """What is removed or changed of a door comes back."""
    old = await admin.get(SERVICE.path(namespace, NAME))
    await admin.delete(SERVICE.path(namespace, NAME))
    await recorder.wait_for(
        SERVICE,
        namespace,
        NAME,
        lambda item: item is not None and item["metadata"]["uid"] != old["metadata"]["uid"],
    )
    routes = await admin.get(CONFIG_MAP.path(namespace, NAME))
    await admin.patch(CONFIG_MAP.path(namespace, NAME), {"data": {ROUTES_FILE: SPOILT}})
    async with asyncio.timeout(60):
        while (await admin.get(CONFIG_MAP.path(namespace, NAME)))["data"] != routes["data"]:
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("door")
async def test_what_has_the_name_already_is_left_alone_and_the_namespace_says_so(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    theirs = await admin.create(CONFIG_MAP.path(namespace), {"metadata": {"name": NAME}, "data": {"a": "b"}})
    await create_pair(admin, namespace)
    await until_service(recorder, namespace)
    async with asyncio.timeout(60):
        while not (notes := await notes_of(admin, namespace)):
            await asyncio.sleep(0.1)
    assert notes[0].startswith(f"ConfigMap {NAME} already exists and has no owner: ")
    assert await admin.get(CONFIG_MAP.path(namespace, NAME)) == theirs
    assert recorder.created(DEPLOYMENT) == {"chat": 1}


async def notes_of(admin: RawClient, namespace: str) -> list[str]:
    """Return what events say of a Namespace."""
    events = (await admin.get(EVENT.path("default")))["items"]
    return [each["note"] for each in events if each["regarding"] == {**each["regarding"], **_about(namespace)}]


def _about(namespace: str) -> Json:
    return {"kind": NAMESPACE.kind, "name": namespace}


async def test_without_the_flag_nothing_of_it_runs(
    cluster: Cluster, namespace: str, recorder: Recorder, installed: Path, mcp_servers: McpServers, tmp_path: Path
) -> None:
    log = tmp_path / "operator.log"
    async with running_operator(installed, mcp_servers.port, log, WATCH_NAMESPACE=namespace, POLICY="{}"):
        await create_pair(cluster.controlplane.admin, namespace)
        await until_service(recorder, namespace)
    assert recorder.created(DEPLOYMENT) == {"chat": 1}
    assert "namespace" not in [line.partition("kind=")[2].strip() for line in log.read_text().splitlines()]
