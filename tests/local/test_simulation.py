"""Simulated nodes show what a kubelet would report, by the image of the pod."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient

Json = dict[str, Any]
_SECONDS = 60.0


@pytest.fixture
def admin(cluster: Cluster) -> RawClient:
    return cluster.controlplane.admin


def _pod(image: str, **spec: Any) -> Json:
    container = {"name": "main", "image": image, **spec.pop("container", {})}
    return {"metadata": {"name": "pod"}, "spec": {"containers": [container], **spec}}


async def _until(admin: RawClient, path: str, predicate: Callable[[Json], bool]) -> Json:
    seen: Json = {}
    try:
        async with asyncio.timeout(_SECONDS):
            while not predicate(seen := await admin.get(path)):
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"{path} never became what was expected: {json.dumps(seen.get('status'), indent=1)}")
    return seen


async def _started(admin: RawClient, namespace: str, pod: Json) -> Json:
    """Create a pod and return its status as soon as a node reports on its containers."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    await admin.create(path, pod)
    seen = await _until(admin, f"{path}/pod", lambda found: "containerStatuses" in found["status"])
    status: Json = seen["status"]
    return status


def _is_ready(status: Json) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in status["conditions"])


async def test_a_node_renews_its_lease_so_that_it_is_not_taken_for_dead(admin: RawClient, cluster: Cluster) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/simulated-0"
    first = (await _until(admin, path, lambda lease: bool(lease.get("spec"))))["spec"]["renewTime"]
    await _until(admin, path, lambda lease: lease["spec"]["renewTime"] != first)


async def test_an_ordinary_pod_runs_and_is_ready(admin: RawClient, namespace: str) -> None:
    status = await _started(admin, namespace, _pod("registry.example.com/app:1"))
    assert status["phase"] == "Running"
    assert _is_ready(status)
    assert status["podIP"].startswith("10.244.")


async def test_a_slow_pod_becomes_ready_after_the_seconds_of_its_tag(admin: RawClient, namespace: str) -> None:
    status = await _started(admin, namespace, _pod("simulate.modelyard.dev/slow:1"))
    assert status["phase"] == "Running"
    assert _is_ready(status)


async def test_a_pod_that_is_not_ready_runs_without_ever_being_ready(admin: RawClient, namespace: str) -> None:
    status = await _started(admin, namespace, _pod("simulate.modelyard.dev/not-ready:1"))
    assert status["phase"] == "Running"
    assert "running" in status["containerStatuses"][0]["state"]
    assert not _is_ready(status)


@pytest.mark.parametrize(
    ("image", "reason", "words"),
    [
        ("simulate.modelyard.dev/hang", "ContainerCreating", ""),
        ("simulate.modelyard.dev/pull-error:1", "ImagePullBackOff", "Back-off pulling image"),
        ("simulate.modelyard.dev/config-error", "CreateContainerConfigError", "container has runAsNonRoot"),
    ],
)
async def test_a_pod_waits_with_the_reason_a_kubelet_gives(
    admin: RawClient, namespace: str, image: str, reason: str, words: str
) -> None:
    status = await _started(admin, namespace, _pod(image))
    waiting = status["containerStatuses"][0]["state"]["waiting"]
    assert (status["phase"], waiting["reason"]) == ("Pending", reason)
    assert waiting.get("message", "").startswith(words)
    assert not _is_ready(status)


@pytest.mark.parametrize(
    ("behaviour", "code", "reason"), [("crash", 1, "Error"), ("oom", 137, "OOMKilled"), ("fail", 1, "Error")]
)
async def test_a_pod_that_ends_is_restarted_in_a_crash_loop(
    admin: RawClient, namespace: str, behaviour: str, code: int, reason: str
) -> None:
    status = await _started(admin, namespace, _pod(f"simulate.modelyard.dev/{behaviour}:1"))
    container = status["containerStatuses"][0]
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    ended = container["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)
    path = f"/api/v1/namespaces/{namespace}/pods/pod"
    await _until(admin, path, lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 3)


async def test_a_failing_pod_that_is_not_restarted_ends_as_failed(admin: RawClient, namespace: str) -> None:
    status = await _started(admin, namespace, _pod("simulate.modelyard.dev/fail", restartPolicy="Never"))
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


async def test_one_simulated_container_decides_for_the_whole_pod(admin: RawClient, namespace: str) -> None:
    pod = _pod("registry.example.com/sidecar:1", initContainers=[{"name": "first", "image": "init"}])
    pod["spec"]["containers"].append({"name": "engine", "image": "simulate.modelyard.dev/crash"})
    status = await _started(admin, namespace, pod)
    reasons = [item["state"]["waiting"]["reason"] for item in status["containerStatuses"]]
    assert reasons == ["CrashLoopBackOff", "CrashLoopBackOff"]
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


async def test_a_deployment_becomes_available_and_its_pods_go_away_with_it(admin: RawClient, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    await admin.create(path, {"metadata": {"name": "web"}, "spec": spec})
    await _until(admin, f"{path}/web", lambda found: found["status"].get("availableReplicas") == 3)
    await admin.delete(f"{path}/web")
    await _until(admin, f"/api/v1/namespaces/{namespace}/pods", lambda found: not found["items"])


async def test_the_pods_of_a_job_complete(admin: RawClient, namespace: str) -> None:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "fetch"}]}
    await admin.create(path, {"metadata": {"name": "fetch"}, "spec": {"template": {"spec": spec}}})
    await _until(admin, f"{path}/fetch", lambda found: found["status"].get("succeeded") == 1)


async def test_pods_are_scheduled_by_the_gpus_a_node_has(cluster: Cluster, admin: RawClient, namespace: str) -> None:
    taint = {"key": "test", "value": namespace, "effect": "NoSchedule"}
    await cluster.simulation.add_node(f"gpu-{namespace}", gpus=2, labels={"test": namespace}, taints=[taint])
    path = f"/api/v1/namespaces/{namespace}/pods"
    for name, gpus in (("waits", "3"), ("fits", "2")):
        limits = {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
        tolerations = [{"key": "test", "operator": "Exists"}]
        pod = _pod("app", container=limits, nodeSelector={"test": namespace}, tolerations=tolerations)
        await admin.create(path, {**pod, "metadata": {"name": name}})
    await _until(admin, f"{path}/fits", lambda found: "Ready" in _conditions(found))
    await _until(admin, f"{path}/waits", lambda found: "Unschedulable" in _conditions(found))
    await cluster.simulation.remove_node(f"gpu-{namespace}")


def _conditions(pod: Json) -> set[str]:
    """Name the conditions that hold, and the reasons of those that do not."""
    conditions = pod["status"].get("conditions", [])
    return {item["type"] if item["status"] == "True" else item.get("reason", "") for item in conditions}


async def test_a_claim_is_bound_and_its_volume_goes_away_with_it(admin: RawClient, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    resources = {"requests": {"storage": "10Gi"}}
    claim = {"metadata": {"name": "models"}, "spec": {"accessModes": ["ReadWriteMany"], "resources": resources}}
    await admin.create(path, claim)
    bound = await _until(admin, f"{path}/models", lambda found: found["status"]["phase"] == "Bound")
    assert bound["spec"]["storageClassName"] == "standard"
    volume = f"/api/v1/persistentvolumes/{bound['spec']['volumeName']}"
    await admin.delete(f"{path}/models")
    async with asyncio.timeout(_SECONDS):
        while await admin.answers(volume):
            await asyncio.sleep(0.05)


async def test_pods_start_again_after_the_api_server_was_away(
    cluster: Cluster, admin: RawClient, namespace: str
) -> None:
    await cluster.controlplane.kill_apiserver()
    await cluster.controlplane.restart_apiserver()
    status = await _started(admin, namespace, _pod("app"))
    assert status["phase"] == "Running"
