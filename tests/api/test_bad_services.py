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
    *(
        ("must not be negative", {"probeOverrides": {probe: {"tcpSocket": {"port": 1}, "periodSeconds": -4}}})
        for probe in ("startup", "liveness", "readiness")
    ),
    ("must have exactly one of", {"probeOverrides": {"readiness": {"periodSeconds": 4}}}),
    ("must have exactly one of", {"probeOverrides": {"startup": {"grpc": {"port": 1}, "exec": {"command": ["true"]}}}}),
    ("must be 1", {"probeOverrides": {"liveness": {"tcpSocket": {"port": 1}, "successThreshold": 2}}}),
    ("spec.image", {"image": "Not An Image"}),
    ("an image such as", {"image": "Not An Image"}),
    ("spec.podLabels", {"podLabels": {"two words": "a"}}),
    ("keys must be names such as", {"podLabels": {"a/b/c": "a"}}),
    ("spec.podLabels", {"podLabels": {"a" * 64: "a"}}),
    ("spec.podLabels", {"podLabels": {"team": "two words"}}),
    ("spec.podLabels", {"podLabels": {"team": "a" * 64}}),
    ("spec.podAnnotations", {"podAnnotations": {"-a": "any text"}}),
    ("spec.nodeSelector", {"nodeSelector": {"Example.com/pool": "big"}}),
    ("spec.nodeSelector", {"nodeSelector": {"pool": "-big"}}),
    ("spec.runtimeClassName", {"runtimeClassName": "NVIDIA"}),
    ("spec.priorityClassName", {"priorityClassName": "very high"}),
    ("spec.vllmConfig.dtype", {"vllmConfig": {"dtype": "float8"}}),
    ("spec.ropeScaling.factor", {"ropeScaling": {"type": "yarn", "factor": "twice"}}),
]


@pytest.mark.parametrize(("field", "spec"), BAD, ids=[f"{field} {number}" for number, (field, _) in enumerate(BAD)])
async def test_an_invalid_field_is_refused_by_name(cluster: Cluster, field: str, spec: Json) -> None:
    with pytest.raises(RawClientError) as refused:
        await cluster.controlplane.admin.create(COLLECTION, service("default", **spec))
    assert field in str(refused.value)


async def test_whatever_a_pod_can_have_is_accepted(cluster: Cluster) -> None:
    pod = {
        "image": "registry.example.com:5000/org/a__b/c-d.e:v1.0_x@sha256:" + "0a" * 32,
        "podLabels": {"team": "", "example.com/Team_1.x": "A-b_c.9"},
        "podAnnotations": {"Example.com/note": "any text; even\nlines"},
        "nodeSelector": {"node.kubernetes.io/instance-type": "g5.2xlarge"},
        "runtimeClassName": "nvidia",
        "probeOverrides": {
            "startup": {"httpGet": {"port": "http"}, "periodSeconds": 0, "successThreshold": 1},
            "readiness": {"exec": {"command": ["true"]}, "successThreshold": 3},
        },
    }
    stored = await cluster.controlplane.admin.create(COLLECTION, service("default", **pod))
    assert stored["spec"] | pod == stored["spec"]


@pytest.mark.parametrize("name", ["a" * 64, "7b-chat"])
async def test_a_name_that_cannot_be_a_services_is_refused(cluster: Cluster, name: str) -> None:
    with pytest.raises(RawClientError, match=r"metadata\.name"):
        await cluster.controlplane.admin.create(COLLECTION, service("default", name))
