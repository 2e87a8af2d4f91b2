"""The life of a ModelDeployment on a real cluster, under the operator's own role. Pods are simulated."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, JOB, POD, SECRET, SERVICE, VOLUME_CLAIM
from modelyard.local.raw_client import RawClientError
from tests.support.mcps import condition, expect_writes, says
from tests.support.modeldeployments import (
    JOB_NAME,
    RESOURCE,
    SOURCE,
    create,
    edit,
    manifest,
    phases,
    until,
    until_running,
)

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.usefixtures("standing_operator")

NINE_WRITES = {
    "patch modeldeployments": 1,
    "create persistentvolumeclaims": 1,
    "create jobs": 1,
    "create deployments": 1,
    "create services": 1,
    "patch modeldeployments/status": 4,
}
"""The finalizer, four children, and four phases that users see."""
DRY = f"{RESOURCE.path('default')}?dryRun=All"
HASH = "0" * 64
OTHER = "https://models.invalid/other.gguf"
OTHER_JOB = "chat-download-d2c95f9b"
"""The Job that fetches it."""


@pytest.mark.quick
async def test_it_walks_from_pending_to_running_with_one_write_for_each_child_and_phase(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    await create(cluster.controlplane.admin, namespace)
    found = await until_running(recorder, namespace)
    assert phases(recorder, namespace) == ["Pending", "Downloading", "Deploying", "Running"]
    await expect_writes(cluster.controlplane.audit_log, namespace, NINE_WRITES)
    assert found["status"]["endpoint"] == f"http://chat.{namespace}.svc.cluster.local:8000"
    assert (found["status"]["readyPods"], found["status"]["servedSource"]) == (1, SOURCE)
    for resource, name in (
        (VOLUME_CLAIM, "chat-weights"),
        (JOB, JOB_NAME),
        (DEPLOYMENT, "chat"),
        (SERVICE, "chat"),
    ):
        child = await cluster.controlplane.admin.get(resource.path(namespace, name))
        assert child["metadata"]["labels"]["modeldeployment"] == "chat"
        assert child["metadata"]["ownerReferences"][0]["name"] == "chat"


async def test_the_manifest_of_the_guide_waits_for_a_node_with_a_gpu_and_says_so(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    body = {
        "apiVersion": "ai.example.com/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "chat"},
        "spec": {
            "modelName": "Llama-3-8B",
            "modelSource": "huggingface://meta-llama/Meta-Llama-3-8B-Instruct",
            "gpus": 1,
            "replicas": 1,
        },
    }
    await cluster.controlplane.admin.create(RESOURCE.path(namespace), body)
    found = await recorder.wait_for(RESOURCE, namespace, "chat", says("Unschedulable"), 60.0)
    assert found
    assert found["status"]["phase"] == "Pending"
    assert "nvidia.com/gpu.present" in condition(found, "Ready")["message"]


async def test_kubectl_shows_and_scales_it(
    cluster: Cluster, namespace: str, recorder: Recorder, kubectl: Kubectl
) -> None:
    await create(cluster.controlplane.admin, namespace)
    await until_running(recorder, namespace)
    head, row = (await kubectl("get", "md", "-n", namespace)).splitlines()
    assert head.split() == ["NAME", "PHASE", "READY", "PROGRESS", "ENDPOINT", "REASON", "AGE"]
    url = f"http://chat.{namespace}.svc.cluster.local:8000"
    assert row.split()[:5] == ["chat", "Running", "1", url, "PodsReady"]
    await kubectl("scale", "md", "chat", "--replicas=2", "-n", namespace)
    await until_running(recorder, namespace, readyPods=2, replicas=2)
    await kubectl("scale", "md", "chat", "--replicas=0", "-n", namespace)
    found = await recorder.wait_for(RESOURCE, namespace, "chat", says("ScaledToZero"))
    assert found
    assert found["status"]["phase"] == "Pending"


async def test_another_source_is_served_once_its_own_job_is_complete(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_running(recorder, namespace)
    edited = await edit(admin, namespace, modelSource=OTHER)
    found = await until_running(recorder, namespace, after=edited)
    assert found["status"]["servedSource"] == OTHER
    assert len(recorder.created(JOB)) == 2
    history = [version.status for version in recorder.history(RESOURCE, namespace, "chat") if version.status]
    first = next(number for number, status in enumerate(history) if status["phase"] == "Running")
    assert {status["endpoint"] for status in history[first:]} == {f"http://chat.{namespace}.svc.cluster.local:8000"}


async def test_a_job_that_is_removed_after_its_success_is_not_run_again(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_running(recorder, namespace)
    await admin.delete(JOB.path(namespace, JOB_NAME) + "?propagationPolicy=Background")
    await recorder.wait_for(JOB, namespace, JOB_NAME, lambda item: item is None)
    await until_running(recorder, namespace, after=await edit(admin, namespace, replicas=2), readyPods=2)
    assert recorder.created(JOB) == {JOB_NAME: 1}


async def test_of_several_changes_of_the_source_the_last_one_counts(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_running(recorder, namespace)
    for last in ("https://models.invalid/third.gguf", SOURCE):
        await edit(admin, namespace, modelSource="https://models.invalid/second.gguf")
        found = await until_running(recorder, namespace, after=await edit(admin, namespace, modelSource=last))
        assert found["status"]["servedSource"] == found["status"]["weights"]["source"] == last
        # A pod of a download that was given up has to be gone, or it might remove weights.
        await recorder.until(lambda: len(_alive(recorder, JOB)) <= 1)


async def test_a_download_removes_nothing_from_a_claim_that_another_object_has_come_to_use(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_running(recorder, namespace)
    await edit(admin, namespace, modelSource=OTHER, nodeSelector={"no": "node"})
    await recorder.wait_for(JOB, namespace, OTHER_JOB, lambda item: item is not None and _prunes(item))
    await create(admin, namespace, "second", replicas=0, storage={"existingClaim": "chat-weights"})
    await recorder.wait_for(JOB, namespace, OTHER_JOB, lambda item: item is not None and not _prunes(item))
    await recorder.wait_for(RESOURCE, namespace, "second", says("ScaledToZero"))


async def test_a_job_and_a_claim_that_are_deleted_half_way_are_made_again(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, nodeSelector={"no": "node"})
    for resource, name in ((JOB, JOB_NAME), (VOLUME_CLAIM, "chat-weights")):
        first = await recorder.wait_for(resource, namespace, name, lambda item: item is not None)
        assert first
        await admin.delete(f"{resource.path(namespace, name)}?propagationPolicy=Background")
        await recorder.wait_for_later(first, resource, partial(_is_another, first))
    found = await until_running(recorder, namespace, after=await edit(admin, namespace, nodeSelector=None))
    claim = await admin.get(VOLUME_CLAIM.path(namespace, "chat-weights"))
    assert found["status"]["weights"]["claimUid"] == claim["metadata"]["uid"]


async def test_a_secret_that_comes_later_lets_it_proceed(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, sourceSecretRef={"name": "hub"})
    await recorder.wait_for(RESOURCE, namespace, "chat", says("SecretNotFound"))
    body = {"metadata": {"name": "hub"}, "stringData": {"HF_TOKEN": "hidden"}}
    await admin.create(SECRET.path(namespace), body)
    await until_running(recorder, namespace)
    assert "hidden" not in str([version.object for version in recorder.log if version.kind != SECRET.kind])


async def test_a_claim_that_is_gone_is_filled_again(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    before = await until_running(recorder, namespace)
    await until(recorder, namespace, after=await edit(admin, namespace, replicas=0), readyPods=0)
    await admin.delete(JOB.path(namespace, JOB_NAME) + "?propagationPolicy=Background")
    await recorder.until(lambda: not _alive(recorder, POD))
    await admin.delete(VOLUME_CLAIM.path(namespace, "chat-weights"))
    found = await until_running(recorder, namespace, after=await edit(admin, namespace, replicas=1))
    assert found["status"]["weights"]["claimUid"] != before["status"]["weights"]["claimUid"]
    assert recorder.created(JOB) == {JOB_NAME: 2}


async def test_the_autoscaler_comes_and_goes_without_a_dip(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, replicas=2)
    await until_running(recorder, namespace, readyPods=2)
    await edit(admin, namespace, autoScaling=True, autoscaling={"maxReplicas": 4})
    await recorder.wait_for(AUTOSCALER, namespace, "chat", lambda item: item is not None)
    await edit(admin, namespace, autoScaling=False, autoscaling=None)
    await recorder.wait_for(AUTOSCALER, namespace, "chat", lambda item: item is None)
    await until_running(recorder, namespace, readyPods=2)
    numbers = {version.object["spec"]["replicas"] for version in recorder.log if version.kind == DEPLOYMENT.kind}
    assert numbers == {2}


async def test_a_claim_of_another_owner_is_left_alone(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await admin.create(VOLUME_CLAIM.path(namespace), {"metadata": {"name": "chat-weights"}, "spec": spec})
    await create(admin, namespace)
    found = await recorder.wait_for(RESOURCE, namespace, "chat", says("NameConflict"))
    assert found
    assert found["status"]["phase"] == "Pending"
    assert recorder.created(JOB) == {}


BAD: list[tuple[str, Any]] = [
    ("spec.modelName", {"modelName": ""}),
    ("spec.modelName", {"modelName": "--flag"}),
    ("spec.modelSource", {"modelSource": ""}),
    ("spec.modelSource", {"modelSource": "ftp://x"}),
    ("spec.modelSource", {"modelSource": "one-word"}),
    ("spec.modelSource", {"modelSource": "huggingface://onlyorg"}),
    ("spec.modelSource", {"modelSource": "huggingface://org/repo/"}),
    ("spec.modelSource", {"modelSource": "s3://"}),
    ("spec.modelSource", {"modelSource": "s3://bucket"}),
    ("spec.modelSource", {"modelSource": "s3://bucket/../x"}),
    ("spec.modelSource", {"modelSource": "pvc://claim"}),
    ("spec.modelSource", {"modelSource": "/a/path"}),
    ("spec.modelSource", {"modelSource": "file:///a/path"}),
    ("spec.modelSource", {"modelSource": "https://me:secret@example.com/a.gguf"}),
    ("spec.modelSource", {"modelSource": "https://example.com/a.gguf?token=1"}),
    ("spec.modelSource", {"modelSource": "https://huggingface.co/org"}),
    ("spec.revision", {"modelSource": "hf://org/repo@v1", "revision": "v2"}),
    ("spec.revision", {"modelSource": "s3://bucket/a", "revision": "v2"}),
    ("spec.checksums", {"modelSource": "pvc://claim/a", "checksums": {"a": HASH}}),
    ("spec.checksums", {"checksums": {"a": "abc"}}),
    ("spec.engine", {"engine": "magic"}),
    ("spec.gpus", {"gpus": -1}),
    ("spec.gpus", {"gpus": 2**31}),
    ("spec.replicas", {"replicas": -1}),
    ("spec.replicas", {"replicas": 1001}),
    ("spec.autoscaling", {"autoscaling": {"maxReplicas": 3}}),
    (
        "minReplicas is 3 and must not be larger than spec.autoscaling.maxReplicas, which is 2; lower",
        {"autoScaling": True, "autoscaling": {"minReplicas": 3, "maxReplicas": 2}},
    ),
    ("spec.storage.size", {"storage": {"size": "big"}}),
    ("spec.storage.accessMode", {"storage": {"accessMode": "ReadWriteOncePod"}}),
    ("spec.storage.existingClaim", {"storage": {"existingClaim": "mine", "size": "1Gi"}}),
    ("spec.download.backoffLimit", {"download": {"backoffLimit": -1}}),
    ("spec.port", {"port": 80}),
]


@pytest.mark.parametrize(("words", "spec"), BAD, ids=[f"{words} {number}" for number, (words, _) in enumerate(BAD)])
async def test_an_invalid_field_is_refused_by_name(cluster: Cluster, words: str, spec: dict[str, Any]) -> None:
    with pytest.raises(RawClientError) as refused:
        await cluster.controlplane.admin.create(DRY, manifest("default", **spec))
    assert words in str(refused.value)


async def test_a_field_that_does_not_exist_is_refused_by_strict_clients(cluster: Cluster) -> None:
    with pytest.raises(RawClientError, match=r"spec\.canery"):
        await cluster.controlplane.admin.create(f"{DRY}&fieldValidation=Strict", manifest("default", canery=1))


@pytest.mark.parametrize("name", ["a" * 64, "with.dot", "3b-llama"])
async def test_a_name_that_cannot_be_a_services_is_refused(cluster: Cluster, name: str) -> None:
    with pytest.raises(RawClientError, match=r"metadata\.name"):
        await cluster.controlplane.admin.create(DRY, manifest("default", name))


async def test_what_a_claim_cannot_change_is_refused(cluster: Cluster, namespace: str) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, storage={"size": "10Gi"})
    path = f"{RESOURCE.path(namespace, 'chat')}?dryRun=All"
    for field, value in (
        ("size", "9Gi"),
        ("accessMode", "ReadWriteMany"),
        ("storageClassName", "other"),
        ("retain", True),
    ):
        with pytest.raises(RawClientError, match=rf"spec\.storage\.{field}"):
            await admin.patch(path, {"spec": {"storage": {field: value}}})
    await admin.patch(path, {"spec": {"storage": {"size": "11Gi"}}})
    await create(admin, namespace, "kept", storage={"size": "10Gi", "retain": True})
    with pytest.raises(RawClientError, match="enlarge the claim <name>-weights itself"):
        await admin.patch(RESOURCE.path(namespace, "kept"), {"spec": {"storage": {"size": "11Gi"}}})


def _is_another(first: dict[str, Any], item: dict[str, Any]) -> bool:
    return bool(item["metadata"]["uid"] != first["metadata"]["uid"])


def _prunes(job: dict[str, Any]) -> bool:
    return "--prune-except" in job["spec"]["template"]["spec"]["containers"][0]["args"]


def _alive(recorder: Recorder, resource: Any) -> set[str]:
    return {name for name in recorder.created(resource) if not recorder.deleted(resource).get(name)}
