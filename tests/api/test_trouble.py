"""What is wrong with a service shows with its cause and the next step, at once, and leaves when its cause does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import DEPLOYMENT, POD, PRIORITY_CLASS, VOLUME_CLAIM
from tests.support.mcps import condition, says
from tests.support.services import (
    SERVICES,
    create_model,
    create_pair,
    create_service,
    edit_service,
    is_held_up,
    report_download,
    until_pod,
    until_service,
)

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.usefixtures("standing_operator")

Json = dict[str, Any]

AT_ONCE = 30.0
"""Seconds from the moment that the pod or the Deployment shows it, on a machine that has much else to do."""
SIMULATED = "simulate.modelyard.dev/"
FAILED = {
    "exitCode": 12,
    "message": '{"result": "not-found", "message": "models.invalid has no tiny.gguf", "remedy": "check the spelling"}',
}


@pytest.mark.parametrize(
    ("image", "reason", "words"),
    [
        ("crash:1", "CrashLoop", "kubectl logs"),
        ("pull-error:1", "ImagePullFailed", "imagePullSecrets"),
        ("config-error:1", "ContainerConfigInvalid", "runAsUser"),
        ("oom:1", "OutOfMemory", "spec.resources.memory"),
    ],
)
async def test_pods_that_cannot_serve_are_explained_until_they_can(
    cluster: Cluster, namespace: str, recorder: Recorder, image: str, reason: str, words: str
) -> None:
    admin = cluster.controlplane.admin
    await create_pair(admin, namespace, image=SIMULATED + image)
    await until_pod(recorder, namespace, is_held_up)
    found = await _until_it_says(recorder, namespace, reason)
    assert words in condition(found, "Degraded")["message"]
    edited = await edit_service(admin, namespace, image="example.com/server:1")
    await _is_well_again(recorder, namespace, edited)


async def test_a_pod_that_no_node_can_take_is_explained_until_one_can(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create_pair(admin, namespace, resources={"cpu": "5000"})
    await until_pod(recorder, namespace, _is_unschedulable)
    found = await recorder.wait_for(SERVICES, namespace, "chat", says("Unschedulable"), AT_ONCE)
    assert found
    assert found["status"]["phase"] == "Creating"
    assert found["status"]["schedulingStatus"] == "InsufficientResources"
    assert found["status"]["schedulingMessage"] == "Insufficient cpu"
    found = await _is_well_again(recorder, namespace, await edit_service(admin, namespace, resources={"cpu": "1"}))
    assert not found["status"]["schedulingStatus"] + found["status"]["schedulingMessage"]


async def test_a_claim_that_is_never_bound_is_explained_until_it_is(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    volume = {"accessModes": ["ReadWriteOnce"], "storageClassName": f"none-{namespace}"}
    asked = {**volume, "resources": {"requests": {"storage": "1Gi"}}}
    await admin.create(VOLUME_CLAIM.path(namespace), {"metadata": {"name": "disk"}, "spec": asked})
    await create_model(admin, namespace, source="pvc://disk/tiny.gguf")
    await create_service(admin, namespace)
    await _wait_since(admin, await until_pod(recorder, namespace, _is_unschedulable), "2020-01-01T00:00:00Z")
    found = await recorder.wait_for(SERVICES, namespace, "chat", says("Unschedulable"), AT_ONCE)
    assert "PersistentVolumeClaims" in condition(found, "Degraded")["message"]
    offer = {**volume, "capacity": {"storage": "1Gi"}, "hostPath": {"path": f"/simulated/{namespace}"}}
    await admin.create("/api/v1/persistentvolumes", {"metadata": {"name": namespace}, "spec": offer})
    await _is_well_again(recorder, namespace)
    await admin.delete(f"/api/v1/persistentvolumes/{namespace}")


async def test_weights_that_cannot_be_fetched_are_explained_in_the_words_of_the_downloader(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create_pair(admin, namespace, image=f"{SIMULATED}hang")
    pod = await until_pod(recorder, namespace, is_held_up)
    looping = {"waiting": {"reason": "CrashLoopBackOff"}}
    await report_download(admin, pod, state=looping, lastState={"terminated": FAILED}, restartCount=1)
    found = await _until_it_says(recorder, namespace, "ModelSourceNotFound")
    assert condition(found, "ModelTransferHealthy")["status"] == "False"
    assert "models.invalid has no tiny.gguf" in condition(found, "Ready")["message"]
    await report_download(admin, pod, state={"terminated": {"exitCode": 0}}, ready=True)
    found = await until_service(recorder, namespace, phase="Creating")
    assert condition(found, "Degraded")["status"] == "False"
    assert condition(found, "ModelTransferHealthy")["status"] == "True"


async def test_a_missing_priority_class_is_named_until_it_exists(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin, name = cluster.controlplane.admin, f"urgent-{namespace}"
    await create_pair(admin, namespace, priorityClassName=name)
    await _until_refused(recorder, namespace)
    found = await _until_it_says(recorder, namespace, "PriorityClassNotFound")
    assert name in condition(found, "Ready")["message"]
    await admin.create(PRIORITY_CLASS.path(), {"metadata": {"name": name}, "value": 77})
    found = await _is_well_again(recorder, namespace)
    assert found["status"]["effectivePriority"] == 77
    await admin.delete(PRIORITY_CLASS.path("", name))


async def test_a_quota_that_is_used_up_is_shown_until_it_is_raised(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin, quotas = cluster.controlplane.admin, f"/api/v1/namespaces/{namespace}/resourcequotas"
    await admin.create(quotas, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}})
    await create_pair(admin, namespace)
    await _until_refused(recorder, namespace)
    found = await _until_it_says(recorder, namespace, "PodsRefused")
    assert "exceeded quota: few" in condition(found, "Ready")["message"]
    await admin.delete(f"{quotas}/few")
    await _is_well_again(recorder, namespace)


async def test_a_refusal_by_pod_security_is_shown_until_the_pod_asks_for_less(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await admin.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    await create_pair(admin, namespace, securityContext={"allowPrivilegeEscalation": True})
    await _until_refused(recorder, namespace)
    found = await _until_it_says(recorder, namespace, "PodsRefused")
    assert "violates PodSecurity" in condition(found, "Ready")["message"]
    await _is_well_again(recorder, namespace, await edit_service(admin, namespace, securityContext=None))


async def test_a_broken_change_is_named_while_the_old_pod_still_serves(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create_pair(admin, namespace)
    await until_service(recorder, namespace)
    await edit_service(admin, namespace, image=f"{SIMULATED}crash")
    found = await recorder.wait_for(SERVICES, namespace, "chat", says("CrashLoop"))
    assert found
    assert found["status"]["phase"] == "Progressing"
    assert condition(found, "Available")["status"] == "True"
    await _is_well_again(recorder, namespace, await edit_service(admin, namespace, image="example.com/server:1"))


async def _until_refused(recorder: Recorder, namespace: str) -> None:
    """Wait until the Deployment shows that pods cannot be created."""

    def refused(item: Json | None) -> bool:
        return condition(item, "ReplicaFailure").get("status") == "True"

    await recorder.wait_for(DEPLOYMENT, namespace, "chat", refused)


async def _until_it_says(recorder: Recorder, namespace: str, reason: str) -> Json:
    """Wait, not for long, until the service has failed for this reason and says so everywhere."""
    found = await recorder.wait_for(SERVICES, namespace, "chat", says(reason), AT_ONCE)
    assert found
    assert found["status"]["phase"] == "Failed"
    assert condition(found, "Available")["status"] == "False"
    assert (condition(found, "Degraded")["status"], condition(found, "Degraded")["reason"]) == ("True", reason)
    return found


async def _wait_since(admin: RawClient, pod: Json, time: str) -> None:
    """Let a pod have waited for its node since then: a claim has a minute to be bound."""
    waits = {**condition(pod, "PodScheduled"), "lastTransitionTime": time}
    path = POD.path(pod["metadata"]["namespace"], pod["metadata"]["name"], "status")
    await admin.patch(path, {"status": {"conditions": [waits]}})


async def _is_well_again(recorder: Recorder, namespace: str, edited: Json | None = None) -> Json:
    found = await until_service(recorder, namespace, after=edited)
    assert condition(found, "Degraded")["status"] == "False"
    return found


def _is_unschedulable(pod: Json) -> bool:
    return bool(condition(pod, "PodScheduled").get("status") == "False")
