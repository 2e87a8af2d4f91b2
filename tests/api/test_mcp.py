"""The life of an MCP object on a real cluster, under the operator's own role."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core import names
from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, POD, SERVICE
from modelyard.kinds.mcp import MCP
from modelyard.local.raw_client import RawClientError
from tests.support.mcps import condition, create, edit, expect_writes, mcp, says, until_ready
from tests.support.mcpserver import Behaviour, Mood

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl
    from tests.support.mcpserver import McpServers
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.usefixtures("standing_operator")

GARBAGE_SECONDS = 90.0
"""The garbage collector of Kubernetes learns of a new kind of owner only after half a minute."""
FIVE_WRITES = {"create deployments": 1, "create services": 1, "patch mcps/status": 3}


@pytest.mark.quick
async def test_it_becomes_ready_with_two_children_and_three_status_writes(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)
    await expect_writes(cluster.controlplane.audit_log, namespace, FIVE_WRITES)
    steps = [version.conditions for version in recorder.history(MCP.resource, namespace, "tools") if version.conditions]
    assert [tuple(step[kind]["status"] for kind in MCP.conditions) for step in steps] == [
        ("False", "Unknown", "False"),
        ("True", "Unknown", "False"),
        ("True", "True", "True"),
    ]
    assert not _events(recorder)


async def test_kubectl_shows_it(cluster: Cluster, namespace: str, recorder: Recorder, kubectl: Kubectl) -> None:
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)
    head, row = (await kubectl("get", "mcp", "-n", namespace, "-o", "wide")).splitlines()
    assert head.split() == ["NAME", "READY", "REASON", "URL", "TOOLS", "AGE"]
    url = f"http://tools-service.{namespace}.svc.cluster.local:8080/mcp"
    assert row.split()[:5] == ["tools", "true", "Ready", url, "2"]


@pytest.mark.quick
async def test_an_edit_rolls_out_and_what_it_drops_disappears(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, env=[{"name": "OLD", "value": "1"}, {"name": "KEPT", "value": "2"}])
    await until_ready(recorder, namespace)
    edited = await edit(admin, namespace, env=[{"name": "KEPT", "value": "3"}])
    found = await until_ready(recorder, namespace, after=edited)
    assert found["status"]["observedGeneration"] == 2
    env = (await admin.get(DEPLOYMENT.path(namespace, "tools")))["spec"]["template"]["spec"]["containers"][0]["env"]
    user = {entry["name"]: entry["value"] for entry in env if not entry["name"].startswith("SERVER_")}
    assert user == {"KEPT": "3"}


async def test_a_users_edit_of_our_field_is_put_back_once(
    cluster: Cluster, namespace: str, recorder: Recorder, kubectl: Kubectl
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_ready(recorder, namespace)
    await kubectl("set", "image", "-n", namespace, "deployment/tools", "mcp=example.com/other:2")
    await recorder.until(lambda: len(_images(recorder, namespace)) == 3)
    await until_ready(recorder, namespace)
    assert _images(recorder, namespace) == ["example.com/tools:1", "example.com/other:2", "example.com/tools:1"]
    await recorder.until(lambda: bool(_events(recorder)))
    assert [event["reason"] for event in _events(recorder)] == ["Restored"]


async def test_a_stranger_under_a_childs_name_is_left_alone_and_reported(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "replicas": 0}
    stranger = await admin.create(DEPLOYMENT.path(namespace), {"metadata": {"name": "tools"}, "spec": spec})
    await create(admin, namespace)
    found = await recorder.wait_for(MCP.resource, namespace, "tools", says("NameConflict"))
    assert "Deployment tools" in condition(found, "Ready")["message"]
    after = await admin.get(DEPLOYMENT.path(namespace, "tools"))
    assert after["metadata"]["uid"] == stranger["metadata"]["uid"]
    assert after["spec"] == stranger["spec"]
    assert not recorder.created(SERVICE)
    await admin.delete(DEPLOYMENT.path(namespace, "tools"))
    edited = await edit(admin, namespace, replicas=2)
    await until_ready(recorder, namespace, after=edited)


async def test_deleting_it_leaves_nothing(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, hpa={"enabled": True})
    await until_ready(recorder, namespace)
    await admin.delete(MCP.resource.path(namespace, "tools"))
    for resource, name in ((DEPLOYMENT, "tools"), (SERVICE, "tools-service"), (AUTOSCALER, "tools")):
        await recorder.wait_for(resource, namespace, name, lambda item: item is None, GARBAGE_SECONDS)
    for pod in recorder.created(POD):
        await recorder.wait_for(POD, namespace, pod, lambda item: item is None)


async def test_deleted_and_created_again_it_waits_for_the_old_children_and_gets_its_own(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    first = await create(admin, namespace)
    await until_ready(recorder, namespace)
    await admin.delete(MCP.resource.path(namespace, "tools"))
    second = await create(admin, namespace)
    await recorder.wait_for(
        MCP.resource,
        namespace,
        "tools",
        lambda item: bool(item) and item["metadata"]["uid"] == second["metadata"]["uid"],
    )
    await until_ready(recorder, namespace)
    owner = (await admin.get(DEPLOYMENT.path(namespace, "tools")))["metadata"]["ownerReferences"][0]["uid"]
    assert owner == second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_somebody_elses_scaling_stays_until_the_spec_changes(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, replicas=1)
    await until_ready(recorder, namespace)
    await admin.patch(DEPLOYMENT.path(namespace, "tools", "scale"), {"spec": {"replicas": 3}})
    await recorder.wait_for(MCP.resource, namespace, "tools", _has_replicas(3))
    edited = await edit(admin, namespace, server={"args": ["--more"]})
    await until_ready(recorder, namespace, after=edited)
    assert (await admin.get(DEPLOYMENT.path(namespace, "tools")))["spec"]["replicas"] == 3
    await edit(admin, namespace, replicas=2)
    await recorder.wait_for(MCP.resource, namespace, "tools", _has_replicas(2))


async def test_the_autoscaler_owns_the_number_while_it_is_on_and_hands_it_back(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, replicas=1, hpa={"enabled": True, "config": {"minReplicas": 2, "maxReplicas": 5}})
    await until_ready(recorder, namespace)
    assert _replicas(recorder, namespace) == [2]
    await admin.patch(DEPLOYMENT.path(namespace, "tools", "scale"), {"spec": {"replicas": 4}})
    await recorder.wait_for(MCP.resource, namespace, "tools", _has_replicas(4))
    edited = await edit(admin, namespace, server={"args": ["--more"]})
    await until_ready(recorder, namespace, after=edited)
    assert _replicas(recorder, namespace) == [2, 4]
    await edit(admin, namespace, hpa={"enabled": False})
    await recorder.wait_for(AUTOSCALER, namespace, "tools", lambda item: item is None)
    await recorder.wait_for(MCP.resource, namespace, "tools", _has_replicas(1))
    assert _replicas(recorder, namespace) == [2, 4, 1]


async def test_scaled_to_zero_says_so_and_comes_back(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, replicas=0)
    found = await recorder.wait_for(MCP.resource, namespace, "tools", says("ScaledToZero"))
    assert found
    assert found["status"]["ready"] is False
    edited = await edit(admin, namespace, replicas=1)
    await until_ready(recorder, namespace, after=edited)


async def test_a_missing_secret_is_named_and_its_arrival_noticed(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, server={"tls": {"secretName": "cert"}})
    found = await recorder.wait_for(MCP.resource, namespace, "tools", says("SecretNotFound"))
    assert "cert" in condition(found, "Ready")["message"]
    assert not recorder.created(DEPLOYMENT)
    secret = {"metadata": {"name": "cert"}, "stringData": {"tls.crt": "canary-certificate"}}
    await admin.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
    await recorder.wait_for(MCP.resource, namespace, "tools", says("SecretKeyMissing"))
    await admin.patch(f"/api/v1/namespaces/{namespace}/secrets/cert", {"stringData": {"tls.key": "canary-key"}})
    deployment = await recorder.wait_for(DEPLOYMENT, namespace, "tools", lambda item: item is not None)
    assert deployment
    assert deployment["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"] == "cert"
    assert not [version for version in recorder.log if "canary" in str(version.object)]


@pytest.mark.parametrize(
    ("image", "reason", "words"),
    [
        ("simulate.modelyard.dev/crash:1", "CrashLoop", "kubectl logs"),
        ("simulate.modelyard.dev/pull-error:1", "ImagePullFailed", "imagePullSecrets"),
        ("simulate.modelyard.dev/config-error:1", "ContainerConfigInvalid", "runAsUser"),
        ("simulate.modelyard.dev/oom:1", "OutOfMemory", "limits.memory"),
        ("node:lts", "NothingToRun", "spec.server.command"),
    ],
)
async def test_trouble_is_shown_with_its_cause_and_the_next_step(
    cluster: Cluster, namespace: str, recorder: Recorder, image: str, reason: str, words: str
) -> None:
    await create(cluster.controlplane.admin, namespace, image=image)
    found = await recorder.wait_for(MCP.resource, namespace, "tools", says(reason))
    assert words in condition(found, "Ready")["message"]
    assert condition(found, "Available")["status"] == "False"
    edited = await edit(cluster.controlplane.admin, namespace, image="example.com/tools:1")
    await until_ready(recorder, namespace, after=edited)


async def test_a_broken_change_is_named_while_the_old_pods_still_serve(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)
    await edit(cluster.controlplane.admin, namespace, image="simulate.modelyard.dev/crash:1")
    found = await recorder.wait_for(MCP.resource, namespace, "tools", says("CrashLoop"))
    assert condition(found, "Available")["status"] == "True"
    assert condition(found, "Ready")["status"] == "False"


async def test_a_server_that_wants_credentials_says_unauthorized(
    cluster: Cluster, namespace: str, recorder: Recorder, mcp_servers: McpServers
) -> None:
    mcp_servers.become(f"tools-service.{namespace}", Behaviour(mood=Mood.UNAUTHORIZED))
    await create(cluster.controlplane.admin, namespace)
    found = await recorder.wait_for(MCP.resource, namespace, "tools", says("Unauthorized"))
    assert condition(found, "Available")["status"] == "True"


async def test_while_paused_nothing_is_written_but_that_it_is_paused(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_ready(recorder, namespace)
    path = MCP.resource.path(namespace, "tools")
    await admin.patch(path, {"metadata": {"annotations": {names.PAUSED: "true"}}})
    await recorder.wait_for(MCP.resource, namespace, "tools", lambda item: bool(condition(item, "Paused")))
    await expect_writes(cluster.controlplane.audit_log, namespace, {**FIVE_WRITES, "patch mcps/status": 4})
    await edit(admin, namespace, replicas=2)
    await create(admin, namespace, "other")
    await until_ready(recorder, namespace, "other")
    both = {"create deployments": 2, "create services": 2, "patch mcps/status": 7}
    await expect_writes(cluster.controlplane.audit_log, namespace, both)
    await admin.patch(path, {"metadata": {"annotations": {names.PAUSED: None}}})
    await recorder.wait_for(MCP.resource, namespace, "tools", _has_replicas(2))
    found = await until_ready(recorder, namespace)
    assert not condition(found, "Paused")


async def test_a_stored_object_that_breaks_the_schema_is_shown_and_stops_nobody(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/mcps.core.inference-gateway.com"
    strict = (await admin.get(definition))["spec"]["versions"]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    lax = [{**strict[0], "schema": {"openAPIV3Schema": anything}}]
    await admin.patch(definition, {"spec": {"versions": lax}})
    try:
        await _create_when_allowed(admin, namespace, server={"port": 70000})
        found = await recorder.wait_for(MCP.resource, namespace, "tools", says("InvalidSpec"))
        assert "spec.server.port" in condition(found, "Ready")["message"]
        assert condition(found, "Available")["status"] == "Unknown"
        await create(admin, namespace, "healthy")
        await until_ready(recorder, namespace, "healthy")
        edited = await edit(admin, namespace, server={"port": 7000})
        await until_ready(recorder, namespace, after=edited)
    finally:
        await admin.patch(definition, {"spec": {"versions": strict}})
        await _until_refused(admin, namespace, server={"port": 70000})


async def _create_when_allowed(admin: Any, namespace: str, **spec: Any) -> None:
    for _ in range(200):  # the API server takes a moment to serve a changed definition
        try:
            await create(admin, namespace, **spec)
        except Exception as error:
            if "Invalid value" not in str(error) and "initializing" not in str(error):
                raise
            await asyncio.sleep(0.02)
        else:
            return
    raise AssertionError("the definition never became lax")


async def _until_refused(admin: Any, namespace: str, **spec: Any) -> None:
    """Wait until the strict definition is served again: until then, watches of the next test are turned away."""
    path = f"{MCP.resource.path(namespace)}?dryRun=All"
    async with asyncio.timeout(60):
        while True:
            try:
                await admin.create(path, mcp(namespace, "refused", **spec))
            except RawClientError as error:
                if "Invalid value" in str(error):
                    return
            await asyncio.sleep(0.02)


async def test_children_of_an_earlier_operator_are_taken_over_and_pruned(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await _create_beside(admin, namespace, "tools")
    await until_ready(recorder, namespace)
    container = (await admin.get(DEPLOYMENT.path(namespace, "tools")))["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "example.com/tools:1"
    assert "STALE" not in {entry["name"] for entry in container["env"]}
    assert recorder.created(DEPLOYMENT) == {"tools": 1}


async def test_a_child_of_an_earlier_operator_that_cannot_be_changed_is_made_again_once_it_is_deleted(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await _create_beside(admin, namespace, "tools-of-before")
    found = await recorder.wait_for(MCP.resource, namespace, "tools", says("ChildRefused"))
    assert found
    assert "delete that object" in condition(found, "Ready")["message"]
    assert found["status"]["replicas"] == 1, "what is there is told, although it cannot be changed"
    await admin.delete(DEPLOYMENT.path(namespace, "tools"))
    # It never was in our watch, so nobody tells; an edit is a reason to look.
    edited = await edit(admin, namespace, replicas=2)
    await until_ready(recorder, namespace, after=edited)


async def _create_beside(admin: Any, namespace: str, app: str) -> None:
    """Create an MCP that has a Deployment from an earlier operator already, whose pods are selected by this label."""
    path, body = MCP.resource.path(namespace), mcp(namespace)
    body["metadata"]["annotations"] = {names.PAUSED: "true"}
    owner = (await admin.create(path, body))["metadata"]
    await admin.create(f"{DEPLOYMENT.path(namespace)}?fieldManager=operator", _earlier_deployment(owner, app))
    await admin.patch(f"{path}/tools", {"metadata": {"annotations": {names.PAUSED: None}}})


def _earlier_deployment(owner: dict[str, Any], app: str) -> dict[str, Any]:
    reference = {
        "apiVersion": MCP.resource.api_version,
        "kind": "MCP",
        "name": "tools",
        "uid": owner["uid"],
        "controller": True,
    }
    env = [{"name": "STALE", "value": "1"}, {"name": "SERVER_HOST", "value": "0.0.0.0"}]
    pod = {"containers": [{"name": "mcp", "image": "example.com/old:1", "env": env}]}
    return {
        "metadata": {
            "name": "tools",
            "ownerReferences": [{**reference, "controller": True}],
            "labels": {"app": app},
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": pod},
        },
    }


def _events(recorder: Recorder) -> list[dict[str, Any]]:
    events = [version.object for version in recorder.log if version.kind == "Event"]
    return [event for event in events if event["regarding"]["kind"] == "MCP"]


def _images(recorder: Recorder, namespace: str) -> list[str]:
    """Return the images of the Deployment, each time that it changed."""
    versions = recorder.history(DEPLOYMENT, namespace, "tools")
    images = [version.object["spec"]["template"]["spec"]["containers"][0]["image"] for version in versions]
    return [image for before, image in zip([None, *images], images, strict=False) if image != before]


def _has_replicas(number: int) -> Any:
    return lambda item: (
        bool(item) and item.get("status", {}).get("readyReplicas") == number == item["status"]["replicas"]
    )


def _replicas(recorder: Recorder, namespace: str) -> list[int]:
    numbers = [version.object["spec"]["replicas"] for version in recorder.history(DEPLOYMENT, namespace, "tools")]
    return [number for before, number in zip([None, *numbers], numbers, strict=False) if number != before]
