"""The end of a ModelDeployment on a real cluster: deprecated, taken back, deleted.

Behind every address of a pod is a server without metrics here, which counts as busy until the time is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core import names
from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, JOB, POD, SERVICE, VOLUME_CLAIM
from tests.support.mcps import condition
from tests.support.modeldeployments import RESOURCE, create, edit, phases, until, until_running

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.usefixtures("standing_operator")

SHORT = {"timeoutSeconds": 3, "delaySeconds": 0}
LONG = {"timeoutSeconds": 600, "delaySeconds": 0}
AT_ONCE = {"timeoutSeconds": 0, "delaySeconds": 0}
OPEN = {"app.kubernetes.io/component": "server", "modeldeployment": "chat"}


async def test_a_deprecated_model_is_drained_stopped_and_gone(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, drain=SHORT, autoScaling=True)
    await until_running(recorder, namespace)
    found = await until(
        recorder, namespace, after=await edit(admin, namespace, deprecated=True), phase="Decommissioned"
    )
    assert phases(recorder, namespace)[-3:] == ["Running", "Draining", "Decommissioned"]
    assert (found["status"]["drainResult"], found["status"]["endpoint"]) == ("TimedOut", "")
    assert condition(found, "Drained")["reason"] == "DrainTimedOut"
    for resource in (DEPLOYMENT, SERVICE, AUTOSCALER):
        await recorder.wait_for(resource, namespace, "chat", lambda item: item is None)
    await recorder.wait_for(VOLUME_CLAIM, namespace, "chat-weights", lambda item: item is None)
    # The autoscaler goes before the pods do, and the pods before their Deployment.
    order = [version.kind for version in recorder.log if version.event == "DELETED"]
    assert order.index("HorizontalPodAutoscaler") < order.index("Deployment")
    again = await edit(admin, namespace, deprecated=False)
    assert (await until_running(recorder, namespace, after=again))["status"]["readyPods"] == 1


async def test_taken_back_half_way_it_serves_again_without_a_new_pod(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, drain=LONG, replicas=2)
    await until_running(recorder, namespace, readyPods=2)
    before, pods = await admin.get(DEPLOYMENT.path(namespace, "chat")), _servers(recorder)
    await until(recorder, namespace, after=await edit(admin, namespace, deprecated=True), phase="Draining")
    closed = await recorder.wait_for(SERVICE, namespace, "chat", lambda item: _selector(item) != OPEN)
    assert _selector(closed) == {**OPEN, "modelyard.dev/draining": "true"}
    await until_running(recorder, namespace, after=await edit(admin, namespace, deprecated=False), readyPods=2)
    assert _selector(await admin.get(SERVICE.path(namespace, "chat"))) == OPEN
    after = await admin.get(DEPLOYMENT.path(namespace, "chat"))
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert _servers(recorder) == pods


async def test_taken_back_while_its_pods_stop_it_serves_again(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, drain=AT_ONCE)
    await until_running(recorder, namespace)
    (pod,) = _servers(recorder)
    await admin.patch(POD.path(namespace, pod), {"metadata": {"finalizers": ["example.com/slow"]}})
    draining = await edit(admin, namespace, deprecated=True)
    await recorder.wait_for(DEPLOYMENT, namespace, "chat", _is_stopped)
    # As an autoscaler of the user would.
    path = f"{DEPLOYMENT.path(namespace, 'chat')}?fieldManager=autoscaler"
    scaled = await admin.patch(path, {"spec": {"replicas": 1}})
    await recorder.wait_for_later(scaled, DEPLOYMENT, _is_stopped)
    await until(recorder, namespace, after=draining, phase="Draining", drainResult="TimedOut")
    await until_running(recorder, namespace, after=await edit(admin, namespace, deprecated=False), readyPods=1)
    assert _selector(await admin.get(SERVICE.path(namespace, "chat"))) == OPEN
    assert recorder.created(DEPLOYMENT) == {"chat": 1}
    await admin.patch(POD.path(namespace, pod), {"metadata": {"finalizers": None}})


async def test_deprecated_while_it_downloads_nothing_is_deployed(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, nodeSelector={"no": "node"})
    await until(recorder, namespace, phase="Pending")
    await until(recorder, namespace, after=await edit(admin, namespace, deprecated=True), phase="Decommissioned")
    for resource in (JOB, VOLUME_CLAIM):
        (name,) = recorder.created(resource)
        await recorder.wait_for(resource, namespace, name, lambda item: item is None)
    assert recorder.created(DEPLOYMENT) == {}


async def test_deleted_it_waits_for_its_requests_and_then_goes(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, drain=SHORT)
    found = await until_running(recorder, namespace)
    assert found["metadata"]["finalizers"] == [names.FINALIZER]
    await admin.delete(RESOURCE.path(namespace, "chat"))
    await recorder.wait_for(RESOURCE, namespace, "chat", lambda item: item is None)
    assert phases(recorder, namespace)[-1] == "Draining"


async def test_deleted_while_it_downloads_or_is_drained_it_goes_with_all_its_children(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, drain=SHORT)
    await until_running(recorder, namespace)
    await create(admin, namespace, "fetching", nodeSelector={"no": "node"})
    await until(recorder, namespace, name="fetching", phase="Pending")
    await until(recorder, namespace, after=await edit(admin, namespace, deprecated=True), phase="Draining")
    for name in ("fetching", "chat"):
        await admin.delete(RESOURCE.path(namespace, name))
        await recorder.wait_for(RESOURCE, namespace, name, lambda item: item is None)
    for resource in (DEPLOYMENT, SERVICE, JOB, POD, VOLUME_CLAIM):
        for name in recorder.created(resource):
            await recorder.wait_for(resource, namespace, name, lambda item: item is None)


async def test_a_claim_that_is_retained_outlives_its_object_and_serves_the_next(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, drain=SHORT, storage={"retain": True})
    await until_running(recorder, namespace)
    claim = await admin.get(VOLUME_CLAIM.path(namespace, "chat-weights"))
    assert "ownerReferences" not in claim["metadata"]
    await until(recorder, namespace, after=await edit(admin, namespace, deprecated=True), phase="Decommissioned")
    again = await edit(admin, namespace, deprecated=False)
    await until_running(recorder, namespace, after=again)
    assert recorder.created(VOLUME_CLAIM) == {"chat-weights": 1}
    assert sum(recorder.created(JOB).values()) == 1


async def test_it_does_not_hold_up_a_namespace_that_is_deleted(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, drain=LONG)
    await until_running(recorder, namespace)
    await admin.delete(f"/api/v1/namespaces/{namespace}")
    await recorder.wait_for(RESOURCE, namespace, "chat", lambda item: item is None, 60.0)


def _is_stopped(deployment: Any) -> bool:
    return bool(deployment) and deployment["spec"]["replicas"] == 0


def _selector(service: Any) -> Any:
    return (service or {}).get("spec", {}).get("selector")


def _servers(recorder: Recorder) -> set[str]:
    return {name for name in recorder.created(POD) if "download" not in name}
