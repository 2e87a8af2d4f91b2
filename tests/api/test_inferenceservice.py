"""The life of an InferenceService and its Model on a real cluster, under the operator's own role."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core import names
from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, POD, SERVICE, VOLUME_CLAIM
from modelyard.core.source import cache_key
from tests.support.mcps import condition, expect_writes, says
from tests.support.services import (
    CLAIM,
    CLAIM_SIZE,
    FIRST_OF_A_NAMESPACE,
    FIVE_WRITES,
    MODELS,
    SERVICES,
    SOURCE,
    create_model,
    create_pair,
    create_service,
    downloader,
    edit_model,
    edit_service,
    engine,
    of_llmkube,
    service,
    until_model,
    until_service,
)

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl
    from tests.support.invariants import Version
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.usefixtures("standing_operator")

GARBAGE_SECONDS = 90.0
"""The garbage collector of Kubernetes learns of a new kind of owner only after half a minute."""


@pytest.mark.quick
async def test_a_model_and_its_service_are_ready_after_five_writes_and_then_left_alone(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin, log = cluster.controlplane.admin, cluster.controlplane.audit_log
    await create_pair(admin, namespace)
    found = await until_service(recorder, namespace)
    await expect_writes(log, namespace, FIRST_OF_A_NAMESPACE)
    await create_model(admin, namespace, "second")
    await create_service(admin, namespace, "again", modelRef="second")
    await until_service(recorder, namespace, "again")
    twice = {what: 2 * number for what, number in FIVE_WRITES.items()}
    await expect_writes(log, namespace, {**twice, "create persistentvolumeclaims": 1})
    assert _claims(found) == {
        "phase": "Ready",
        "readyReplicas": 1,
        "replicas": 1,
        "desiredReplicas": 1,
        "endpoint": f"http://chat.{namespace}.svc.cluster.local:8080/v1/chat/completions",
        "modelReady": True,
        "effectivePriority": 10000,
    }
    assert not [version for version in recorder.log if version.kind == "Event" and _is_ours(version.object)]


async def test_on_its_way_it_claims_nothing_that_is_not_so(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    await create_pair(cluster.controlplane.admin, namespace, image="simulate.modelyard.dev/slow:1")
    await until_service(recorder, namespace)
    steps = [version for version in recorder.history(SERVICES, namespace, "chat") if version.status]
    assert [(step.status["phase"], _truths(step.conditions)) for step in steps] == [
        ("Creating", {"Ready": "False", "Available": "False", "Progressing": "True", "Degraded": "False"}),
        ("Ready", {"Ready": "True", "Available": "True", "Progressing": "False", "Degraded": "False"}),
    ]


async def test_kubectl_shows_both(cluster: Cluster, namespace: str, recorder: Recorder, kubectl: Kubectl) -> None:
    await create_pair(cluster.controlplane.admin, namespace)
    await until_service(recorder, namespace)
    head, row = (await kubectl("get", "isvc", "-n", namespace)).splitlines()
    assert head.split() == ["NAME", "PHASE", "MODEL", "REPLICAS", "REASON", "ENDPOINT", "AGE"]
    url = f"http://chat.{namespace}.svc.cluster.local:8080/v1/chat/completions"
    assert row.split()[:6] == ["chat", "Ready", "tiny", "1", "InferenceReady", url]
    head, row = (await kubectl("get", "mdl", "-n", namespace)).splitlines()
    assert head.split() == ["NAME", "PHASE", "REASON", "SIZE", "ACCELERATOR", "AGE"]
    assert row.split()[:5] == ["tiny", "Ready", "Ready", "0", "cpu"]


@pytest.mark.quick
async def test_an_edit_rolls_out_and_what_it_drops_disappears(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create_pair(admin, namespace, contextSize=4096, extraArgs=["--seed", "1"])
    await until_service(recorder, namespace)
    edited = await edit_service(admin, namespace, contextSize=None, extraArgs=["--seed", "2"])
    await until_service(recorder, namespace, after=edited)
    args = engine(await admin.get(DEPLOYMENT.path(namespace, "chat")))["args"]
    assert args[-2:] == ["--seed", "2"]
    assert "4096" not in args


async def test_a_service_that_was_edited_before_can_still_be_given_gpus(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create_pair(admin, namespace)
    edited = await edit_service(admin, namespace, contextSize=4096)
    await until_service(recorder, namespace, after=edited)
    edited = await edit_service(admin, namespace, resources={"gpu": 1})
    await until_service(recorder, namespace, after=edited)
    found = await admin.get(DEPLOYMENT.path(namespace, "chat"))
    assert found["spec"]["strategy"] == {"type": "Recreate"}


async def test_another_source_rolls_the_pods_and_old_weights_never_get_the_new_name(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin, other = cluster.controlplane.admin, "https://models.invalid/other.gguf"
    await create_pair(admin, namespace)
    await until_service(recorder, namespace)
    await edit_model(admin, namespace, source=other)
    await until_model(recorder, namespace, cacheKey=cache_key(other), phase="Ready")
    await recorder.wait_for(DEPLOYMENT, namespace, "chat", lambda item: _serves(item, other))
    await until_service(recorder, namespace)
    pods = [version.object for version in recorder.log if version.kind == "Pod" and version.event == "ADDED"]
    assert [_weights(pod) for pod in pods] == [
        (source, f"/models/{cache_key(source)}", f"/models/{cache_key(source)}/tiny.gguf") for source in (SOURCE, other)
    ]


async def test_kubectl_scales_it_to_zero_and_back(
    cluster: Cluster, namespace: str, recorder: Recorder, kubectl: Kubectl
) -> None:
    await create_pair(cluster.controlplane.admin, namespace)
    await until_service(recorder, namespace)
    scale = json.loads(await kubectl("get", "--raw", f"{SERVICES.path(namespace, 'chat')}/scale"))
    assert scale["status"] == {"replicas": 1, "selector": "app=chat,inference.llmkube.dev/service=chat"}
    await kubectl("scale", "-n", namespace, "inferenceservice/chat", "--replicas=0")
    found = await until_service(recorder, namespace, phase="Stopped")
    assert condition(found, "Available")["status"] == "False"
    assert found["status"]["replicas"] == found["status"]["readyReplicas"] == 0
    await kubectl("scale", "-n", namespace, "inferenceservice/chat", "--replicas=2")
    found = await until_service(recorder, namespace)
    assert found["status"]["readyReplicas"] == 2


async def test_an_autoscaler_takes_the_number_over_and_hands_it_back_without_a_dip(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create_pair(admin, namespace, replicas=2)
    await until_service(recorder, namespace)
    edited = await edit_service(admin, namespace, autoscaling={"minReplicas": 2, "maxReplicas": 5})
    await recorder.wait_for(AUTOSCALER, namespace, "chat", lambda item: item is not None)
    await until_service(recorder, namespace, after=edited)
    await admin.patch(DEPLOYMENT.path(namespace, "chat", "scale"), {"spec": {"replicas": 4}})
    await until_service(recorder, namespace, readyReplicas=4, desiredReplicas=4)
    edited = await edit_service(admin, namespace, autoscaling=None, replicas=3)
    await recorder.wait_for(AUTOSCALER, namespace, "chat", lambda item: item is None)
    await until_service(recorder, namespace, after=edited, readyReplicas=3)
    numbers = [version.object["spec"]["replicas"] for version in recorder.history(DEPLOYMENT, namespace, "chat")]
    assert list(dict.fromkeys(numbers)) == [2, 4, 3]
    ready = [version.status.get("readyReplicas", 0) for version in recorder.history(SERVICES, namespace, "chat")]
    assert min(ready[ready.index(2) :]) == 2


async def test_a_service_waits_for_its_model_and_keeps_serving_when_it_goes(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create_service(admin, namespace)
    found = await until_service(recorder, namespace, phase="Pending", modelReady=False)
    assert "tiny" in condition(found, "Ready")["message"]
    assert not recorder.created(DEPLOYMENT)
    await create_model(admin, namespace)
    await until_service(recorder, namespace, modelReady=True)
    await admin.delete(MODELS.path(namespace, "tiny"))
    found = await until_service(recorder, namespace, phase="Progressing", modelReady=False)
    assert condition(found, "Degraded")["reason"] == "ModelNotFound"
    assert condition(found, "Available")["status"] == "True"
    await create_model(admin, namespace)
    await until_service(recorder, namespace, modelReady=True)
    assert recorder.created(POD).total() == 1


@pytest.mark.parametrize(
    ("source", "reason", "words"),
    [
        ("/data/tiny.gguf", "SourceNotAllowed", "--allowed-host-path-roots"),
        ("pvc://disk/tiny.gguf", "PVCNotFound", "the claim disk"),
        ("https://models.invalid/tiny-00001-of-00003.gguf", "SourceUnfit", "hf://org/repo/FIRST-PART"),
    ],
)
async def test_a_model_that_may_not_be_served_is_explained_by_both(
    cluster: Cluster, namespace: str, recorder: Recorder, source: str, reason: str, words: str
) -> None:
    admin = cluster.controlplane.admin
    await create_model(admin, namespace, source=source)
    await create_service(admin, namespace)
    for resource, name, phase in ((MODELS, "tiny", "Failed"), (SERVICES, "chat", "Pending")):
        found = await recorder.wait_for(resource, namespace, name, says(reason))
        assert found
        assert found["status"]["phase"] == phase
        assert words in condition(found, "Ready")["message"]
    assert not recorder.created(DEPLOYMENT)
    await edit_model(admin, namespace, source=SOURCE)
    await until_service(recorder, namespace)


async def test_a_secret_or_a_key_that_is_missing_is_named_and_its_arrival_noticed(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin, secrets = cluster.controlplane.admin, f"/api/v1/namespaces/{namespace}/secrets"
    keys = {"AWS_ACCESS_KEY_ID": "canary", "AWS_SECRET_ACCESS_KEY": "canary"}
    await admin.create(secrets, {"metadata": {"name": "partial"}, "stringData": {"AWS_ACCESS_KEY_ID": "canary"}})
    for name in ("absent", "partial"):
        await create_model(admin, namespace, name, source="s3://bucket/tiny.gguf", sourceSecretRef={"name": name})
        await create_service(admin, namespace, name, modelRef=name)
    found = await recorder.wait_for(SERVICES, namespace, "absent", says("SecretNotFound"))
    assert "absent" in condition(found, "Ready")["message"]
    found = await recorder.wait_for(SERVICES, namespace, "partial", says("SecretKeyMissing"))
    assert "AWS_SECRET_ACCESS_KEY" in condition(found, "Ready")["message"]
    await admin.create(secrets, {"metadata": {"name": "absent"}, "stringData": keys})
    await admin.patch(f"{secrets}/partial", {"stringData": keys})
    for name in ("absent", "partial"):
        await until_service(recorder, namespace, name)
    assert not [version for version in recorder.log if "canary" in str(version.object)]


async def test_a_stranger_under_the_deployments_name_is_left_alone_and_reported(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "replicas": 0}
    stranger = await admin.create(DEPLOYMENT.path(namespace), {"metadata": {"name": "chat"}, "spec": spec})
    await create_pair(admin, namespace)
    found = await recorder.wait_for(SERVICES, namespace, "chat", says("NameConflict"))
    assert found
    assert found["status"]["phase"] == "Failed"
    assert "Deployment chat already exists and has no owner" in condition(found, "Ready")["message"]
    assert "delete it, and it is created again" in condition(found, "Ready")["message"]
    after = await admin.get(DEPLOYMENT.path(namespace, "chat"))
    assert (after["metadata"]["uid"], after["spec"]) == (stranger["metadata"]["uid"], stranger["spec"])
    assert not recorder.created(SERVICE)
    await admin.delete(DEPLOYMENT.path(namespace, "chat"))
    await until_service(recorder, namespace, after=await edit_service(admin, namespace, replicas=2))


async def test_a_service_that_no_client_can_reach_is_not_ready_until_one_can(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin, path = cluster.controlplane.admin, f"{SERVICE.path(namespace, 'chat')}/status"
    await create_pair(admin, namespace)
    await until_service(recorder, namespace)
    # As the proxy of one machine writes it.
    said = {"type": names.REACHABLE, "status": "False", "reason": "AddressInUse", "message": "it is taken; end it"}
    taken = {"conditions": [{**said, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    await admin.patch(path, {"status": taken})
    found = await recorder.wait_for(SERVICES, namespace, "chat", says("NoAnswer"))
    assert "the Service cannot be reached: it is taken; end it, or change" in condition(found, "Ready")["message"]
    await admin.patch(path, {"status": {"conditions": []}})
    await recorder.wait_for(SERVICES, namespace, "chat", lambda item: condition(item, "Ready")["status"] == "True")


async def test_what_llmkube_made_is_taken_over_and_pruned_without_a_dip(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    made = {"metadata": {"name": CLAIM}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": CLAIM_SIZE}}
    claim = await admin.create(f"{VOLUME_CLAIM.path(namespace)}?fieldManager=manager", made)
    await create_model(admin, namespace)
    body = service(namespace, autoscaling={"maxReplicas": 5}, endpoint={"type": "NodePort"})
    body["metadata"]["annotations"] = {names.PAUSED: "true"}
    owner = (await admin.create(SERVICES.path(namespace), body))["metadata"]
    before = [
        await admin.create(f"{resource.path(namespace)}?fieldManager=manager", child)
        for resource, child in of_llmkube(owner).items()
    ]
    await recorder.wait_for(DEPLOYMENT, namespace, "chat", lambda item: _ready(item) == 3)
    await admin.patch(SERVICES.path(namespace, "chat"), {"metadata": {"annotations": {names.PAUSED: None}}})
    await until_service(recorder, namespace, readyReplicas=3)
    after = [await admin.get(resource.path(namespace, "chat")) for resource in of_llmkube(owner)]
    assert [item["metadata"]["uid"] for item in after] == [item["metadata"]["uid"] for item in before]
    deployment, endpoint, _ = after
    assert "MODEL_SOURCE" not in {entry["name"] for entry in downloader(deployment)["env"]}
    assert "command" not in engine(deployment)
    (port,), (port_before,) = endpoint["spec"]["ports"], before[1]["spec"]["ports"]
    assert (port["targetPort"], port["nodePort"]) == ("http", port_before["nodePort"])
    numbers = [(version.object["spec"]["replicas"], _ready(version.object)) for version in _since_ready(recorder)]
    assert min(numbers) == (3, 3)
    found = await admin.get(VOLUME_CLAIM.path(namespace, CLAIM))
    assert (found["metadata"]["uid"], found["metadata"].get("labels")) == (claim["metadata"]["uid"], None)


async def test_deleting_both_leaves_nothing_but_the_cache(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create_pair(admin, namespace, autoscaling={"maxReplicas": 2})
    await until_service(recorder, namespace)
    await admin.delete(SERVICES.path(namespace, "chat"))
    await admin.delete(MODELS.path(namespace, "tiny"))
    for resource in (DEPLOYMENT, SERVICE, AUTOSCALER):
        await recorder.wait_for(resource, namespace, "chat", lambda item: item is None, GARBAGE_SECONDS)
    for pod in recorder.created(POD):
        await recorder.wait_for(POD, namespace, pod, lambda item: item is None)
    claim = await admin.get(VOLUME_CLAIM.path(namespace, CLAIM))
    assert "ownerReferences" not in claim["metadata"]
    assert "deletionTimestamp" not in claim["metadata"]


def _claims(item: dict[str, Any]) -> dict[str, Any]:
    """Return what a status says, without what other tests look at."""
    apart = ("conditions", "lastUpdated", "observedGeneration", "selector")
    return {name: value for name, value in item["status"].items() if name not in apart and value not in ("", 0, False)}


def _truths(conditions: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {kind: conditions[kind]["status"] for kind in ("Ready", "Available", "Progressing", "Degraded")}


def _weights(item: dict[str, Any]) -> tuple[str, str, str]:
    """Return what is fetched, where to, and what is served."""
    fetch, args = downloader(item)["args"], engine(item)["args"]
    return fetch[1], fetch[fetch.index("--to") + 1], args[args.index("--model") + 1]


def _ready(deployment: dict[str, Any] | None) -> int:
    return int((deployment or {}).get("status", {}).get("readyReplicas", 0))


def _since_ready(recorder: Recorder) -> list[Version]:
    """Return all versions of the only Deployment from when its pods were ready first."""
    versions = [version for version in recorder.log if version.kind == DEPLOYMENT.kind]
    return versions[next(index for index, version in enumerate(versions) if _ready(version.object) == 3) :]


def _serves(deployment: dict[str, Any] | None, source: str) -> bool:
    """Whether every pod there is was made to serve this."""
    if deployment is None:
        return False
    spec, status = deployment["spec"], deployment.get("status", {})
    settled = status.get("observedGeneration") == deployment["metadata"]["generation"]
    numbers = {status.get(name) for name in ("replicas", "updatedReplicas", "readyReplicas")}
    return _weights(deployment)[0] == source and settled and numbers == {spec["replicas"]}


def _is_ours(event: dict[str, Any]) -> bool:
    return event["regarding"]["kind"] in (SERVICES.kind, MODELS.kind)
