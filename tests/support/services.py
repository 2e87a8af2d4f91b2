"""Models and InferenceServices for tests, and what to wait for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, POD, SERVICE
from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.model import MODEL
from tests.support.audit import answered
from tests.support.operators import USER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from modelyard.core.resources import Resource
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

Json = dict[str, Any]

SOURCE = "https://models.invalid/tiny.gguf"
"""No host of this name will ever answer the operator, and no simulated pod fetches anything."""
SERVICES, MODELS = INFERENCE_SERVICE.resource, MODEL.resource
CLAIM = "llmkube-model-cache"
CLAIM_SIZE = {"requests": {"storage": "100Gi"}}

FIVE_WRITES = {
    "patch models/status": 1,
    "create deployments": 1,
    "create services": 1,
    "patch inferenceservices/status": 2,
}
"""What a Model and a service cost from create to Ready."""
FIRST_OF_A_NAMESPACE = {**FIVE_WRITES, "create persistentvolumeclaims": 1}


def model(namespace: str, name: str = "tiny", **spec: Any) -> Json:
    """Return the manifest of a Model."""
    return _manifest(MODELS, namespace, name, {"source": SOURCE, **spec})


def service(namespace: str, name: str = "chat", **spec: Any) -> Json:
    """Return the manifest of an InferenceService."""
    return _manifest(SERVICES, namespace, name, {"modelRef": "tiny", **spec})


def _manifest(resource: Resource, namespace: str, name: str, spec: Json) -> Json:
    meta = {"namespace": namespace, "name": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}


async def create_model(admin: RawClient, namespace: str, name: str = "tiny", **spec: Any) -> Json:
    """Store a Model."""
    return await admin.create(MODELS.path(namespace), model(namespace, name, **spec))


async def create_service(admin: RawClient, namespace: str, name: str = "chat", **spec: Any) -> Json:
    """Store an InferenceService."""
    return await admin.create(SERVICES.path(namespace), service(namespace, name, **spec))


async def create_pair(admin: RawClient, namespace: str, **spec: Any) -> Json:
    """Store the Model tiny and the InferenceService chat, and return the latter."""
    await create_model(admin, namespace)
    return await create_service(admin, namespace, **spec)


async def edit_model(admin: RawClient, namespace: str, name: str = "tiny", **spec: Any) -> Json:
    """Change the spec of a Model."""
    return await admin.patch(MODELS.path(namespace, name), {"spec": spec})


async def edit_service(admin: RawClient, namespace: str, name: str = "chat", **spec: Any) -> Json:
    """Change the spec of an InferenceService."""
    return await admin.patch(SERVICES.path(namespace, name), {"spec": spec})


def shows(**fields: Any) -> Callable[[Json | None], bool]:
    """Whether the status has these values, for the spec as it is now."""

    def check(item: Json | None) -> bool:
        if item is None:
            return False
        status = item.get("status", {})
        current = status.get("observedGeneration") == item["metadata"]["generation"]
        return current and all(status.get(name) == value for name, value in fields.items())

    return check


async def until_service(
    recorder: Recorder,
    namespace: str,
    name: str = "chat",
    *,
    phase: str = "Ready",
    after: Json | None = None,
    **fields: Any,
) -> Json:
    """Wait until a service is in a phase (as of an edit, when its answer is given), and return it."""
    least = after["metadata"]["generation"] if after else 1
    check = shows(phase=phase, **fields)
    found = await recorder.wait_for(
        SERVICES, namespace, name, lambda item: check(item) and (item or {})["metadata"]["generation"] >= least, 40.0
    )
    assert found
    return found


async def until_model(recorder: Recorder, namespace: str, name: str = "tiny", **fields: Any) -> Json:
    """Wait until the status of a Model has these values, and return it."""
    found = await recorder.wait_for(MODELS, namespace, name, shows(**fields))
    assert found
    return found


async def until_pod(
    recorder: Recorder, namespace: str, is_as_wanted: Callable[[Json], bool], name: str = "chat"
) -> Json:
    """Wait until the only pod of a service is as wanted, and return it."""

    def pods() -> list[str]:
        return [found for found in recorder.created(POD) if found.startswith(f"{name}-")]

    await recorder.until(lambda: bool(pods()))
    (pod,) = pods()
    found = await recorder.wait_for(POD, namespace, pod, lambda item: item is not None and is_as_wanted(item))
    assert found
    return found


def is_held_up(pod: Json) -> bool:
    """Whether a container of a pod cannot start, or start again."""
    return any("waiting" in one["state"] for one in pod.get("status", {}).get("containerStatuses", ()))


async def report_download(admin: RawClient, pod: Json, **status: Any) -> None:
    """Report of the downloader what a kubelet would."""
    meta = pod["metadata"]
    entry = {"name": "model-downloader", "image": "x", "imageID": "x", "ready": False, "restartCount": 0, **status}
    path = POD.path(meta["namespace"], meta["name"], "status")
    await admin.patch(path, {"status": {"initContainerStatuses": [entry]}})


def of_llmkube(owner: Json) -> dict[Resource, Json]:
    """Return what LLMKube makes for a service: other labels, and fields that we do not state. Three pods are wanted."""
    name = owner["name"]
    selector = {"app": name, "inference.llmkube.dev/service": name}
    reference = {"apiVersion": SERVICES.api_version, "kind": SERVICES.kind, "name": name, "uid": owner["uid"]}
    meta = {
        "name": name,
        "labels": selector,
        "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": False}],
    }
    fetch = {"name": "model-downloader", "image": "curl", "env": [{"name": "MODEL_SOURCE", "value": SOURCE}]}
    port = {"name": "http", "containerPort": 8080}
    server = {"name": "llama-server", "image": "llama", "command": ["/app/llama-server"], "ports": [port]}
    target = {"apiVersion": DEPLOYMENT.api_version, "kind": DEPLOYMENT.kind, "name": name}
    value = {"type": "AverageValue", "averageValue": "2"}
    metric = {"type": "Pods", "pods": {"metric": {"name": "llamacpp:requests_processing"}, "target": value}}
    specs = {
        DEPLOYMENT: {
            "replicas": 3,
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": selector}, "spec": {"initContainers": [fetch], "containers": [server]}},
        },
        SERVICE: {
            "type": "NodePort",
            "selector": selector,
            "ports": [{"name": "http", "port": 8080, "targetPort": 8080}],
        },
        AUTOSCALER: {
            "scaleTargetRef": target,
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [metric],
        },
    }
    return {resource: {"metadata": meta, "spec": spec} for resource, spec in specs.items()}


def engine(item: Json) -> Json:
    """Return the container that serves, of a Deployment or a pod."""
    spec = item["spec"].get("template", item)["spec"]
    found: Json = spec["containers"][0]
    return found


def downloader(item: Json) -> Json:
    """Return the container that fetches the weights, of a Deployment or a pod."""
    spec = item["spec"].get("template", item)["spec"]
    found: Json = spec["initContainers"][0]
    return found


def status_writes(audit_log: Path, namespace: str) -> Counter[str]:
    """Count by name how often the operator wrote the status of a service, from the audit log."""
    targets = (entry["objectRef"] for entry in answered(audit_log, USER, namespace))
    return Counter(
        target["name"]
        for target in targets
        if (target["resource"], target.get("subresource")) == (SERVICES.plural, "status")
    )
