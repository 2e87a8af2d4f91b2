"""Objects that are stored although no API server would take them today: the definition was looser once.

Each says what is wrong with it, and nobody else is held up.
"""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import DEPLOYMENT, SERVICE
from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.model import MODEL
from modelyard.kinds.modeldeployment import MODEL_DEPLOYMENT
from modelyard.kinds.zerfooinferenceservice import ZERFOO_INFERENCE_SERVICE
from modelyard.local.raw_client import RawClientError
from modelyard.manifests.crd import crd
from tests.support import modeldeployments, zerfoos
from tests.support.mcps import condition, says, writes
from tests.support.services import (
    FIVE_WRITES,
    MODELS,
    SERVICES,
    create_model,
    create_pair,
    create_service,
    until_service,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.core.resources import Resource
    from modelyard.kinds.contract import Kind
    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.usefixtures("standing_operator")

Json = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
BAD_SERVICES: list[tuple[str, Json]] = [
    ("spec.modelRef", {"modelRef": None}),
    ("spec.runtime", {"runtime": "magic"}),
    ("spec.image", {"runtime": "generic"}),
    ("spec.image", {"runtime": "personaplex"}),
    ("spec.replicas", {"replicas": 11}),
    ("spec.priority", {"priority": "urgent"}),
    ("spec.resources.memory", {"resources": {"memory": "1 GB"}}),
    ("spec.resources.gpuMemory", {"resources": {"gpuMemory": "large"}}),
    ("spec.resources.cpu", {"resources": {"cpu": 4}}),
    ("spec.autoscaling.minReplicas", {"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}),
    ("spec.autoscaling.metrics", {"autoscaling": {"maxReplicas": 2, "metrics": [{"type": "Pods", "name": "a"}]}}),
    ("spec.endpoint", {"endpoint": "http"}),
    ("spec.vllmConfig.dtype", {"runtime": "vllm", "vllmConfig": {"dtype": "float8"}}),
    ("spec.podLabels", {"podLabels": {"a": 1}}),
    ("spec.podLabels", {"podLabels": {"two words": "a"}}),
    ("spec.nodeSelector", {"nodeSelector": {"pool": "two words"}}),
    ("spec.image", {"image": "two words"}),
    ("spec.probeOverrides.liveness", {"probeOverrides": {"liveness": {"exec": {}, "periodSeconds": -4}}}),
    ("spec.tolerations", {"tolerations": ["all"]}),
]
BAD_MODELS: list[tuple[str, Json]] = [
    ("spec.source", {"source": ""}),
    ("spec.source", {"source": "ftp://models.invalid/tiny.gguf"}),
    ("spec.source", {"source": 7}),
    ("spec.sha256", {"sha256": "abc"}),
    ("spec.format", {"format": "onnx"}),
    ("spec.refreshPolicy", {"refreshPolicy": "Always"}),
    ("spec.hardware.accelerator", {"hardware": {"accelerator": "tpu"}}),
    ("spec.hardware.gpu.count", {"hardware": {"gpu": {"count": "all"}}}),
    ("spec.hardware.gpu.memory", {"hardware": {"gpu": {"memory": "much"}}}),
    ("spec.sourceSecretRef.name", {"sourceSecretRef": {"name": "../escape"}}),
]

BAD_DEPLOYMENTS: list[tuple[str, Json]] = [
    ("spec", {"modelName": None}),
    ("spec.modelSource", {"modelSource": "ftp://models.invalid/tiny.gguf"}),
    ("spec.modelSource", {"modelSource": 7}),
    ("spec.modelSource", {"modelSource": "https://me:secret@models.invalid/tiny.gguf"}),
    ("spec.revision", {"revision": "v1"}),
    ("spec.checksums", {"checksums": {"a": "abc"}}),
    ("spec.engine", {"engine": "magic"}),
    ("spec.replicas", {"replicas": 1001}),
    ("spec.gpus", {"gpus": 2**31}),
    ("spec.storage.size", {"storage": {"size": "big"}}),
    ("spec.autoscaling", {"autoscaling": {"maxReplicas": 2}}),
    ("spec.deprecated", {"deprecated": "yes"}),
]
BAD_ZERFOOS: list[tuple[str, Json]] = [
    ("spec.healthCheck", {"healthCheck": None}),
    ("spec.replicas", {"replicas": 0}),
    ("spec.replicas", {"replicas": 1001}),
    ("spec.modelRef", {"modelRef": "   "}),
    ("spec.minReplicas", {"minReplicas": 10, "maxReplicas": 5}),
    ("spec.canary.weight", {"canary": {"modelRef": "new", "weight": "20"}}),
    ("spec.healthCheck.interval", {"healthCheck": {**zerfoos.HEALTH, "interval": "-5s"}}),
    ("spec.resources.gpuMemory", {"resources": {"gpuMemory": "24GB"}}),
]
KINDS = (MODEL, INFERENCE_SERVICE, MODEL_DEPLOYMENT, ZERFOO_INFERENCE_SERVICE)


@pytest.fixture(scope="module")
async def looser_definitions(cluster: Cluster, installed: object) -> AsyncIterator[None]:
    """For a while, the API server takes anything."""
    admin = cluster.controlplane.admin
    for kind in KINDS:
        await _define(admin, kind, ANYTHING)
        await _until_taken(admin, kind.resource, taken=True, spec={})
    yield
    for kind in KINDS:
        await _define(admin, kind, crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        await _until_taken(admin, kind.resource, taken=False, spec={})


@pytest.mark.usefixtures("looser_definitions")
async def test_services_that_make_no_sense_name_the_field_and_others_are_served(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    for number, (_, spec) in enumerate(BAD_SERVICES):
        await create_service(admin, namespace, f"bad-{number}", **spec)
    await create_pair(admin, namespace)
    await until_service(recorder, namespace)
    assert await _fields_named(recorder, SERVICES, namespace, BAD_SERVICES) == [field for field, _ in BAD_SERVICES]


@pytest.mark.usefixtures("looser_definitions")
@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("tolerations", {"tolerations": [{"key": 7}]}),
        ("env", {"env": [{"value": "nameless"}]}),
        ("runAsUser", {"podSecurityContext": {"runAsUser": "root"}}),
        ("httpGet", {"probeOverrides": {"startup": {"httpGet": "/"}}}),
        ("imagePullSecrets", {"imagePullSecrets": [{"name": ["a"]}]}),
    ],
)
async def test_what_is_wrong_inside_types_of_kubernetes_is_shown_in_its_own_words(
    cluster: Cluster, namespace: str, recorder: Recorder, field: str, spec: Json
) -> None:
    await create_pair(cluster.controlplane.admin, namespace, **spec)
    found = await recorder.wait_for(SERVICES, namespace, "chat", says("ChildRefused"))
    assert found
    assert found["status"]["phase"] == "Failed"
    assert field in condition(found, "Ready")["message"]


@pytest.mark.usefixtures("looser_definitions")
async def test_models_that_make_no_sense_name_the_field_and_their_services_wait(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    for number, (_, spec) in enumerate(BAD_MODELS):
        await create_model(admin, namespace, f"bad-{number}", **spec)
    await create_service(admin, namespace, "waits", modelRef="bad-6")
    await create_pair(admin, namespace)
    await until_service(recorder, namespace)
    assert await _fields_named(recorder, MODELS, namespace, BAD_MODELS) == [field for field, _ in BAD_MODELS]
    found = await until_service(recorder, namespace, "waits", phase="Pending", modelReady=False)
    assert condition(found, "Ready")["reason"] == "ModelInvalid"
    assert "kubectl describe model bad-6" in condition(found, "Ready")["message"]


@pytest.mark.usefixtures("looser_definitions")
async def test_deployments_that_make_no_sense_name_the_field_and_go_when_they_are_deleted(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    for number, (_, spec) in enumerate(BAD_DEPLOYMENTS):
        await modeldeployments.create(admin, namespace, f"bad-{number}", **spec)
    resource = MODEL_DEPLOYMENT.resource
    named = await _fields_named(recorder, resource, namespace, BAD_DEPLOYMENTS)
    assert named == [field for field, _ in BAD_DEPLOYMENTS]
    # One with a finalizer, whose spec makes no sense any more, must not keep it.
    await modeldeployments.create(admin, namespace, drain={"timeoutSeconds": 600})
    await modeldeployments.until_running(recorder, namespace)
    await modeldeployments.edit(admin, namespace, modelSource="ftp://models.invalid/tiny.gguf")
    await recorder.wait_for(resource, namespace, "chat", says("InvalidSpec"))
    await admin.delete(resource.path(namespace, "chat"))
    await recorder.wait_for(resource, namespace, "chat", lambda item: item is None)


@pytest.mark.usefixtures("looser_definitions")
async def test_zerfoo_services_that_make_no_sense_name_the_field_and_get_no_child(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    for number, (_, spec) in enumerate(BAD_ZERFOOS):
        await zerfoos.create(cluster.controlplane.admin, namespace, f"bad-{number}", **spec)
    named = await _fields_named(recorder, zerfoos.ZERFOOS, namespace, BAD_ZERFOOS)
    assert named == [field for field, _ in BAD_ZERFOOS]
    assert not recorder.created(DEPLOYMENT)
    assert not recorder.created(SERVICE)


@pytest.fixture
async def other_status(cluster: Cluster, installed: object, request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """For a while, the definition of InferenceServices has another status, as that of another operator has."""
    admin = cluster.controlplane.admin
    schema = crd(INFERENCE_SERVICE)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    other = copy.deepcopy(schema)
    request.param(other["properties"]["status"]["properties"])
    await _define(admin, INFERENCE_SERVICE, {**other, "required": []})
    await _until_taken(admin, INFERENCE_SERVICE.resource, taken=True)
    yield
    await _define(admin, INFERENCE_SERVICE, schema)
    await _until_taken(admin, INFERENCE_SERVICE.resource, taken=False)


def drop_selector(status: Json) -> None:
    """Know no selector, as LLMKube does not."""
    del status["selector"]


def know_one_condition(status: Json) -> None:
    """Refuse conditions of other types, as the Gateways of the original do."""
    status["conditions"]["items"]["properties"]["type"]["enum"] = ["Progressing"]


@pytest.mark.parametrize("other_status", [drop_selector], indirect=True)
@pytest.mark.usefixtures("other_status")
async def test_a_status_field_that_the_definition_drops_is_not_written_again(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create_pair(admin, namespace)
    found = await until_service(recorder, namespace)
    assert "selector" not in found["status"]
    for _ in range(3):
        changed = await admin.patch(DEPLOYMENT.path(namespace, "chat"), {"metadata": {"labels": {"app": "other"}}})
        await recorder.wait_for_later(changed, DEPLOYMENT, lambda item: item["metadata"]["labels"]["app"] == "chat")
    what = "patch inferenceservices/status"
    assert writes(cluster.controlplane.audit_log, namespace)[what] <= FIVE_WRITES[what]


@pytest.mark.parametrize("other_status", [know_one_condition], indirect=True)
@pytest.mark.usefixtures("other_status")
async def test_a_definition_that_refuses_the_status_is_named_in_an_event(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    await create_pair(cluster.controlplane.admin, namespace)
    await recorder.until(lambda: any(one.object.get("reason") == "StatusRefused" for one in recorder.log))
    (event,) = [one.object for one in recorder.log if one.object.get("reason") == "StatusRefused"]
    assert "apply deploy/crds.yaml of this version" in event["note"]
    assert event["regarding"]["name"] == "chat"


async def _fields_named(
    recorder: Recorder, resource: Resource, namespace: str, bad: list[tuple[str, Json]]
) -> list[str]:
    """Return of each bad object the field that it complains of, or its whole complaint if it is about another."""
    named = []
    for number, (field, _) in enumerate(bad):
        found = await recorder.wait_for(resource, namespace, f"bad-{number}", says("InvalidSpec"))
        assert found
        assert found["status"]["phase"] == "Failed"
        message = str(condition(found, "Ready")["message"])
        named.append(field if message.startswith(field) else message)
    return named


async def _define(admin: RawClient, kind: Kind, schema: Json) -> None:
    path = f"{DEFINITIONS}/{kind.resource.plural}.{kind.resource.group}"
    versions = (await admin.get(path))["spec"]["versions"]
    await admin.patch(path, {"spec": {"versions": [{**versions[0], "schema": {"openAPIV3Schema": schema}}]}})


async def _until_taken(admin: RawClient, resource: Resource, *, taken: bool, **parts: Json) -> None:
    """Wait until the API server takes nonsense, or refuses it again: it serves a changed definition a moment later."""
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "any"}, **parts}
    async with asyncio.timeout(60):
        while await _is_taken(admin, f"{resource.path('default')}?dryRun=All", body) != taken:
            await asyncio.sleep(0.05)


async def _is_taken(admin: RawClient, path: str, body: Json) -> bool:
    try:
        await admin.create(path, body)
    except RawClientError:
        return False
    return True
