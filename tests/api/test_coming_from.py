"""The steps of docs/guides/coming-from.md: what the Inference Gateway operator left is taken over, and nothing is lost.

MCP objects and InferenceServices have tests of their own, in their files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

from modelyard.core import names
from modelyard.core.resources import DEPLOYMENT, SERVICE
from modelyard.kinds.agent import AGENT
from modelyard.kinds.contract import Kind
from modelyard.kinds.gateway import GATEWAY
from modelyard.kinds.orchestrator import ORCHESTRATOR
from tests.support import agents, gateways, orchestrators

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.usefixtures("standing_operator")

Json = dict[str, Any]


class Left(Struct, frozen=True):
    """What the other operator makes of one kind, and how ours is waited for."""

    kind: Kind
    manifest: Callable[[str], Json]
    container: str
    until_ready: Callable[..., Awaitable[Json]]
    service: bool = True
    """Whether there is a Service of the object's name."""
    owned: bool = True
    """Whether that Service has an owner; step 5 of the page gives it one where it has none."""


LEFT = (
    Left(GATEWAY, gateways.gateway, "inference-gateway", gateways.until_ready),
    Left(AGENT, agents.agent, "agent", agents.until_ready, owned=False),
    Left(ORCHESTRATOR, orchestrators.orchestrator, "orchestrator", orchestrators.until_ready, service=False),
)


@pytest.mark.parametrize("left", LEFT, ids=lambda left: left.kind.name)
async def test_the_children_stay_and_get_what_we_plan(
    cluster: Cluster, namespace: str, recorder: Recorder, left: Left
) -> None:
    admin = cluster.controlplane.admin
    await orchestrators.create_token(admin, namespace)
    manifest = left.manifest(namespace)
    manifest["metadata"]["annotations"] = {names.PAUSED: "true"}
    path, name = left.kind.resource.path(namespace), manifest["metadata"]["name"]
    owner = await admin.create(path, manifest)
    before = await _children(admin, namespace, left, owner)
    if left.service and not left.owned:
        adopted = {"metadata": {"ownerReferences": [_reference(owner)]}}
        await admin.patch(SERVICE.path(namespace, name), adopted)
    await admin.patch(f"{path}/{name}", {"metadata": {"annotations": {names.PAUSED: None}}})
    found = await left.until_ready(recorder, namespace)
    assert found["metadata"]["uid"] == owner["metadata"]["uid"]
    after = {child: await admin.get(child) for child in before}
    assert {child: item["metadata"]["uid"] for child, item in after.items()} == before
    (container,) = after[DEPLOYMENT.path(namespace, name)]["spec"]["template"]["spec"]["containers"]
    assert "STALE" not in {entry["name"] for entry in container.get("env", ())}
    assert container["image"] == manifest["spec"]["image"]


async def _children(admin: RawClient, namespace: str, left: Left, owner: Json) -> dict[str, str]:
    """Create the children as the other operator does, and return their UIDs by path."""
    name = owner["metadata"]["name"]
    made = {DEPLOYMENT: _deployment(name, left.container)} | ({SERVICE: _service(name)} if left.service else {})
    uids = {}
    for resource, body in made.items():
        owned = left.owned or resource == DEPLOYMENT
        body["metadata"] = {"name": name, "ownerReferences": [_reference(owner)] if owned else []}
        stored = await admin.create(f"{resource.path(namespace)}?fieldManager=operator", body)
        uids[resource.path(namespace, name)] = stored["metadata"]["uid"]
    return uids


def _reference(owner: Json) -> Json:
    taken = {key: owner["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True, **taken}


def _deployment(name: str, container: str) -> Json:
    env = [{"name": "STALE", "value": "1"}]
    pod = {"containers": [{"name": container, "image": "example.com/before:1", "env": env}]}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {"spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}}


def _service(name: str) -> Json:
    return {"spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 8080}]}}
