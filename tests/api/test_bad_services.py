"""Every invalid field of an InferenceService is refused by the API server, with a message that names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from modelyard.local.raw_client import RawClientError
from tests.support.services import SERVICES, service

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster

Json = dict[str, Any]

pytestmark = pytest.mark.usefixtures("installed")

COLLECTION = f"{SERVICES.path('default')}?dryRun=All"
"""The API server decides as always, and stores nothing: no test here needs a namespace of its own."""
BAD: list[tuple[str, Json]] = [
    ("spec.modelRef", {"modelRef": ""}),
    ("spec.runtime", {"runtime": "magic"}),
    ("spec.image", {"runtime": "generic"}),
    ("spec.image", {"runtime": "personaplex"}),
    ("spec.image", {"runtime": "generic", "image": ""}),
    ("spec.replicas", {"replicas": 11}),
    ("spec.priority", {"priority": "urgent"}),
    ("spec.contextSize", {"contextSize": 100}),
    ("spec.cacheTypeK", {"cacheTypeK": "q2"}),
    ("spec.containerPort", {"containerPort": 70000}),
    ("spec.endpoint.path", {"endpoint": {"path": "v1"}}),
    ("spec.endpoint.type", {"endpoint": {"type": "ExternalName"}}),
    ("spec.resources.gpu", {"resources": {"gpu": 9}}),
    ("spec.resources.cpu", {"resources": {"cpu": "many"}}),
    ("spec.resources.memory", {"resources": {"memory": "-1Gi"}}),
    ("spec.resources.hostMemory", {"resources": {"hostMemory": "64 GB"}}),
    ("spec.resources.gpuMemory", {"resources": {"gpuMemory": "large"}}),
    ("spec.resources.ephemeralStorage", {"resources": {"ephemeralStorage": "plenty"}}),
    ("spec.modelCache.persistence", {"modelCache": {"persistence": "Sometimes"}}),
    ("spec.modelCache.claimName", {"modelCache": {"persistence": "Ephemeral", "claimName": "disk"}}),
    ("spec.autoscaling.maxReplicas", {"autoscaling": {}}),
    ("spec.autoscaling.minReplicas", {"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}),
    ("spec.autoscaling.metrics", {"autoscaling": {"maxReplicas": 2, "metrics": [{"type": "Pods", "name": "a"}]}}),
    ("spec.autoscaling.metrics", {"autoscaling": {"maxReplicas": 2, "metrics": [{"type": "Resource", "name": "cpu"}]}}),
    ("spec.tolerations", {"tolerations": ["all"]}),
    ("spec.probeOverrides.liveness", {"probeOverrides": {"liveness": {"periodSeconds": "often"}}}),
    ("spec.vllmConfig.dtype", {"vllmConfig": {"dtype": "float8"}}),
    ("spec.ropeScaling.factor", {"ropeScaling": {"type": "yarn", "factor": "twice"}}),
]


@pytest.mark.parametrize(("field", "spec"), BAD, ids=[f"{field} {number}" for number, (field, _) in enumerate(BAD)])
async def test_an_invalid_field_is_refused_by_name(cluster: Cluster, field: str, spec: Json) -> None:
    with pytest.raises(RawClientError) as refused:
        await cluster.controlplane.admin.create(COLLECTION, service("default", **spec))
    assert field in str(refused.value)


@pytest.mark.parametrize("name", ["a" * 64, "7b-chat"])
async def test_a_name_that_cannot_be_a_services_is_refused(cluster: Cluster, name: str) -> None:
    with pytest.raises(RawClientError, match=r"metadata\.name"):
        await cluster.controlplane.admin.create(COLLECTION, service("default", name))
