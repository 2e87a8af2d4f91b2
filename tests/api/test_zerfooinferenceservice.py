"""The life of a ZerfooInferenceService on a real cluster, under the operator's own role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import AUTOSCALER, CONFIG_MAP, DEPLOYMENT, POD, SERVICE
from modelyard.kinds.shared.envoy_router import router_files
from modelyard.local.raw_client import RawClientError
from tests.support.mcps import condition, expect_writes, says
from tests.support.mcps import create as create_tool_server
from tests.support.mcps import until_ready as until_tool_server_ready
from tests.support.services import MODELS, create_model
from tests.support.zerfoos import (
    HEALTH,
    TRIAL,
    ZERFOOS,
    create,
    create_canary,
    edit,
    until_phase,
    until_weighted,
    zerfoo,
)

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl
    from tests.support.operators import OperatorProcess
    from tests.support.recorder import Recorder

Json = dict[str, Any]

pytestmark = pytest.mark.usefixtures("standing_operator")

GARBAGE_SECONDS = 90.0
"""The garbage collector of Kubernetes learns of a new kind of owner only after half a minute."""
COLLECTION = f"{ZERFOOS.path('default')}?dryRun=All"
CHILDREN = ((DEPLOYMENT, "chat-primary"), (SERVICE, "chat-primary"), (SERVICE, "chat-svc"))
STEP = {"weight": 20, "duration": "10m"}
BAD: list[tuple[str, Json]] = [
    ("spec.modelRef", {"modelRef": ""}),
    ("spec.modelRef", {"modelRef": "   "}),
    ("spec.modelRef", {"modelRef": "--help"}),
    ("spec.modelRef", {"modelRef": "Org/Repo", "runtime": "vllm"}),
    ("spec.replicas", {"replicas": 0}),
    ("spec.replicas", {"replicas": -1}),
    ("spec.replicas", {"replicas": None}),
    ("spec.replicas", {"replicas": 2**31}),
    ("spec.runtime", {"runtime": "generic"}),
    ("spec.minReplicas", {"minReplicas": -1, "maxReplicas": 10}),
    ("spec.minReplicas", {"minReplicas": 2}),
    ("spec.minReplicas", {"maxReplicas": 2}),
    (
        "minReplicas is 10 and must not be larger than spec.maxReplicas, which is 5; lower",
        {"minReplicas": 10, "maxReplicas": 5},
    ),
    ("spec.resources.cpu", {"resources": {"cpu": "many"}}),
    ("spec.resources.memory", {"resources": {"memory": "-1Gi"}}),
    ("spec.resources.gpuMemory", {"resources": {"gpuMemory": "24GB"}}),
    ("spec.resources.gpuMemory", {"resources": {"gpuMemory": "abc"}}),
    ("spec.canary.modelRef", {"canary": {"weight": 20}}),
    ("spec.canary.modelRef", {"canary": {"modelRef": ""}}),
    ("spec.canary.modelRef", {"canary": {"modelRef": "Org/Repo"}, "runtime": "tgi"}),
    ("spec.canary.weight", {"canary": {"modelRef": "new", "weight": 101}}),
    ("spec.canary.weight", {"canary": {"modelRef": "new", "weight": -1}}),
    ("spec.canary.weight", {"canary": {"modelRef": "new", "weight": 20.5}}),
    ("spec.canary.weight", {"canary": {"modelRef": "new", "weight": "20"}}),
    ("spec.canary.weight", {"canary": {"modelRef": "new", "weight": 20, "steps": [STEP]}}),
    ("spec.canary.promote", {"canary": {"modelRef": "new", "weight": 20, "promote": "Auto"}}),
    ("spec.canary.steps", {"canary": {"modelRef": "new", "steps": [{**STEP, "duration": "0s"}]}}),
    ("spec.canary.steps", {"canary": {"modelRef": "new", "steps": [{**STEP, "maxP95Latency": "0s"}]}}),
    ("spec.canary.steps[0].weight", {"canary": {"modelRef": "new", "steps": [{**STEP, "weight": 0}]}}),
    ("spec.canary.steps[0].maxErrorRate", {"canary": {"modelRef": "new", "steps": [{**STEP, "maxErrorRate": "1"}]}}),
    ("spec.canary.steps[0].maxErrorRate", {"canary": {"modelRef": "new", "steps": [{**STEP, "maxErrorRate": "101%"}]}}),
    ("spec.healthCheck", {"healthCheck": None}),
    ("spec.healthCheck.path", {"healthCheck": {**HEALTH, "path": ""}}),
    ("spec.healthCheck.path", {"healthCheck": {**HEALTH, "path": "healthz"}}),
    ("spec.healthCheck.interval", {"healthCheck": {**HEALTH, "interval": "0s"}}),
    ("spec.healthCheck.interval", {"healthCheck": {**HEALTH, "interval": "-5s"}}),
    ("spec.healthCheck.interval", {"healthCheck": {**HEALTH, "interval": "10"}}),
    ("spec.healthCheck.interval", {"healthCheck": {**HEALTH, "interval": 0}}),
    ("spec.healthCheck.interval", {"healthCheck": {**HEALTH, "interval": "2h"}}),
    ("spec.healthCheck.timeout", {"healthCheck": {**HEALTH, "timeout": "0s"}}),
    ("spec.healthCheck.timeout", {"healthCheck": {**HEALTH, "timeout": "11s"}}),
    ("spec.healthCheck.timeout", {"healthCheck": {**HEALTH, "timeout": 11_000_000_000}}),
]
GOOD: list[Json] = [
    {"minReplicas": 5, "maxReplicas": 5},
    {"replicas": 20, "minReplicas": 1, "maxReplicas": 10},
    {"healthCheck": {"path": "/h?deep=1", "interval": 10_000_000_000, "timeout": "500ms"}},
    {"canary": {"modelRef": "tiny", "weight": 100}},
    {"canary": {"modelRef": "new", "steps": [{**STEP, "maxErrorRate": "0.5%", "maxP95Latency": 2_000_000_000}]}},
    {"canary": {"modelRef": "new", "steps": [{**STEP, "maxErrorRate": "100%"}]}},
    {"resources": {"cpu": "4", "memory": "16Gi", "gpuMemory": "0"}},
]


@pytest.mark.quick
async def test_it_becomes_ready_with_three_children_and_two_status_writes(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    await create(cluster.controlplane.admin, namespace)
    found = await until_phase(recorder, namespace)
    writes = {"create deployments": 1, "create services": 2, "patch zerfooinferenceservices/status": 2}
    await expect_writes(cluster.controlplane.audit_log, namespace, writes)
    phases = [version.status["phase"] for version in recorder.history(ZERFOOS, namespace, "chat") if version.status]
    assert phases == ["Pending", "Ready"]
    assert found["status"]["tracks"] == [
        {"name": "primary", "model": "tiny", "replicas": 1, "readyReplicas": 1, "weight": 100, "effectiveWeight": 100}
    ]
    assert (found["status"]["ready"], found["status"]["replicas"], found["status"]["message"]) == (True, 1, "")


async def test_kubectl_shows_it_and_scales_it(
    cluster: Cluster, namespace: str, recorder: Recorder, kubectl: Kubectl
) -> None:
    await create(cluster.controlplane.admin, namespace)
    await until_phase(recorder, namespace)
    head, row = (await kubectl("get", "zis", "-n", namespace)).splitlines()
    assert head.split() == ["NAME", "READY", "REPLICAS", "CANARY", "URL", "AGE"]
    url = f"http://chat-svc.{namespace}.svc.cluster.local:8080"
    assert row.split()[:4] == ["chat", "true", "1", url]
    await kubectl("scale", "-n", namespace, "zis/chat", "--replicas=3")
    await until_phase(recorder, namespace, replicas=3)


@pytest.mark.parametrize(("words", "spec"), BAD, ids=[f"{words} {number}" for number, (words, _) in enumerate(BAD)])
async def test_an_invalid_field_is_refused_by_name(cluster: Cluster, words: str, spec: Json) -> None:
    body = zerfoo("default", **spec)
    body["spec"] = {name: value for name, value in body["spec"].items() if value is not None}
    with pytest.raises(RawClientError) as refused:
        await cluster.controlplane.admin.create(COLLECTION, body)
    assert words in str(refused.value)


async def test_a_field_that_does_not_exist_is_refused_by_strict_clients(cluster: Cluster) -> None:
    with pytest.raises(RawClientError, match=r"spec\.canery"):
        await cluster.controlplane.admin.create(f"{COLLECTION}&fieldValidation=Strict", zerfoo("default", canery=1))


@pytest.mark.parametrize("name", ["a" * 56, "with.dot", "1digit"])
async def test_a_name_that_leaves_no_room_for_children_is_refused(cluster: Cluster, name: str) -> None:
    with pytest.raises(RawClientError, match=r"metadata\.name"):
        await cluster.controlplane.admin.create(COLLECTION, zerfoo("default", name))


@pytest.mark.parametrize("spec", GOOD)
async def test_what_may_be_is_accepted(cluster: Cluster, spec: Json) -> None:
    await cluster.controlplane.admin.create(COLLECTION, zerfoo("default", **spec))


async def test_a_change_of_the_health_check_alone_reaches_the_pods(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_phase(recorder, namespace)
    edited = await edit(admin, namespace, healthCheck={"path": "/other"})
    await until_phase(recorder, namespace, after=edited)
    found = await admin.get(DEPLOYMENT.path(namespace, "chat-primary"))
    probe = found["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    assert probe["httpGet"]["path"] == "/other"


async def test_an_autoscaler_takes_the_number_over_and_hands_it_back_without_a_dip(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, replicas=5, resources={"cpu": "1"})
    await until_phase(recorder, namespace)
    edited = await edit(admin, namespace, minReplicas=2, maxReplicas=10)
    await recorder.wait_for(AUTOSCALER, namespace, "chat-hpa", lambda item: item is not None)
    await until_phase(recorder, namespace, after=edited)
    await admin.patch(DEPLOYMENT.path(namespace, "chat-primary", "scale"), {"spec": {"replicas": 7}})
    await until_phase(recorder, namespace, replicas=7)
    edited = await edit(admin, namespace, modelRef="other")
    await until_phase(recorder, namespace, after=edited)
    edited = await edit(admin, namespace, minReplicas=None, maxReplicas=None)
    await recorder.wait_for(AUTOSCALER, namespace, "chat-hpa", lambda item: item is None)
    await until_phase(recorder, namespace, after=edited, replicas=5)
    history = recorder.history(DEPLOYMENT, namespace, "chat-primary")
    assert list(dict.fromkeys(version.object["spec"]["replicas"] for version in history)) == [5, 7]


async def test_what_an_autoscaler_has_chosen_outlives_a_restart_of_the_operator(
    cluster: Cluster, namespace: str, recorder: Recorder, standing_operator: OperatorProcess
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, replicas=2, minReplicas=1, maxReplicas=10, resources={"cpu": "1"})
    await until_phase(recorder, namespace, replicas=2)
    await admin.patch(DEPLOYMENT.path(namespace, "chat-primary", "scale"), {"spec": {"replicas": 7}})
    await until_phase(recorder, namespace, replicas=7)
    await standing_operator.stop()
    await standing_operator.start()
    await standing_operator.until_ready("leader")
    edited = await edit(admin, namespace, modelRef="other")
    await until_phase(recorder, namespace, after=edited, replicas=7)


async def test_two_kinds_that_want_the_same_child_do_not_take_it_from_each_other(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create_tool_server(admin, namespace, "chat-primary")
    first = await recorder.wait_for(DEPLOYMENT, namespace, "chat-primary", lambda item: item is not None)
    assert first
    await create(admin, namespace)
    found = await recorder.wait_for(ZERFOOS, namespace, "chat", says("NameConflict"))
    assert found
    assert condition(found, "PrimaryReady")["reason"] == "NameConflict"
    await until_tool_server_ready(recorder, namespace, "chat-primary")
    owners = {
        version.object["metadata"]["ownerReferences"][0]["kind"]
        for version in recorder.history(DEPLOYMENT, namespace, "chat-primary")
    }
    assert owners == {"MCP"}


async def test_children_that_a_user_deletes_come_back_and_edits_are_reverted(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, minReplicas=1, maxReplicas=2, resources={"cpu": "1"})
    await until_phase(recorder, namespace)
    for resource, name in (*CHILDREN, (AUTOSCALER, "chat-hpa")):
        before = (await admin.get(resource.path(namespace, name)))["metadata"]["uid"]
        await admin.delete(resource.path(namespace, name))
        await recorder.wait_for(
            resource, namespace, name, lambda item, before=before: bool(item) and item["metadata"]["uid"] != before
        )
    selector = (await admin.get(SERVICE.path(namespace, "chat-svc")))["spec"]["selector"]
    await admin.patch(SERVICE.path(namespace, "chat-svc"), {"spec": {"selector": {"app": "chat"}}})
    await recorder.wait_for(
        SERVICE, namespace, "chat-svc", lambda item: bool(item) and item["spec"]["selector"] == selector
    )


@pytest.mark.parametrize(("name", "ready"), [("chat-primary", 0), ("chat-svc", 1)])
async def test_a_stranger_under_a_childs_name_is_left_alone_and_reported(
    cluster: Cluster, namespace: str, recorder: Recorder, name: str, ready: int
) -> None:
    admin = cluster.controlplane.admin
    spec = {"ports": [{"port": 80}]}
    stranger = await admin.create(SERVICE.path(namespace), {"metadata": {"name": name}, "spec": spec})
    await create(admin, namespace)
    await recorder.wait_for(ZERFOOS, namespace, "chat", says("NameConflict"))
    found = await recorder.wait_for(
        ZERFOOS, namespace, "chat", lambda item: bool(item) and item["status"]["tracks"][0]["readyReplicas"] >= ready
    )
    assert found
    assert (found["status"]["phase"], found["status"]["ready"]) == ("Failed", False)
    assert f"Service {name}" in found["status"]["message"]
    after = await admin.get(SERVICE.path(namespace, name))
    assert after["metadata"]["uid"] == stranger["metadata"]["uid"]


async def test_a_model_that_is_missing_is_waited_for_and_pods_outlive_it(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, runtime="llamacpp")
    found = await until_phase(recorder, namespace, phase="Failed")
    assert condition(found, "PrimaryReady")["reason"] == "ModelNotFound"
    assert not recorder.created(DEPLOYMENT)
    await create_model(admin, namespace)
    await until_phase(recorder, namespace)
    await admin.delete(MODELS.path(namespace, "tiny"))
    await until_phase(recorder, namespace, phase="Degraded")
    await create_model(admin, namespace)
    await until_phase(recorder, namespace)
    assert recorder.created(POD).total() == 1


async def test_a_canary_gets_no_request_while_its_routers_do_not_answer(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    """Simulated pods answer nothing, so the Service stays where it is safe, and new weights change no pod."""
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_phase(recorder, namespace)
    for weight in (20, 60, 100):
        edited = await edit(admin, namespace, canary={"modelRef": "new", "weight": weight})
        await recorder.wait_for(ZERFOOS, namespace, "chat", says("WaitingForRouters"))
        found = await until_phase(recorder, namespace, phase="Progressing", after=edited)
        assert [track["effectiveWeight"] for track in found["status"]["tracks"]] == [100, 0]
    selectors = [version.object["spec"]["selector"] for version in recorder.history(SERVICE, namespace, "chat-svc")]
    assert {selector["app"] for selector in selectors} == {"chat-primary"}
    for track in ("primary", "canary", "router"):
        assert (await admin.get(DEPLOYMENT.path(namespace, f"chat-{track}")))["metadata"]["generation"] == 1


async def test_weights_that_a_user_writes_for_the_routers_are_put_back(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create_canary(admin, namespace)
    await until_weighted(recorder, namespace)
    path = CONFIG_MAP.path(namespace, f"{TRIAL}-router")
    ours = (await admin.get(path))["data"]
    edited = await admin.patch(path, {"data": router_files({"primary": 1, "canary": 99}).data})
    assert edited["data"] != ours
    await recorder.wait_for_later(edited, CONFIG_MAP, lambda item: item["data"] == ours)


async def test_deleting_it_leaves_nothing_and_deleting_it_twice_is_no_error(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, minReplicas=1, maxReplicas=2)
    await until_phase(recorder, namespace)
    await admin.delete(SERVICE.path(namespace, "chat-svc"))
    await admin.delete(ZERFOOS.path(namespace, "chat"))
    for resource, name in (*CHILDREN, (AUTOSCALER, "chat-hpa")):
        await recorder.wait_for(resource, namespace, name, lambda item: item is None, GARBAGE_SECONDS)
