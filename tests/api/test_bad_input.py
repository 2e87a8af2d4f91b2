"""Every invalid field of an MCP object is refused by the API server, with a message that names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from modelyard.kinds.mcp import MCP
from modelyard.local.raw_client import RawClientError
from tests.support.mcps import mcp

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster

pytestmark = pytest.mark.usefixtures("installed")

COLLECTION = f"{MCP.resource.path('default')}?dryRun=All"
"""The API server decides as always, and stores nothing: no test here needs a namespace of its own."""
HPA = {"enabled": True}
BAD: list[tuple[str, Any]] = [
    ("spec.replicas", {"replicas": -1}),
    ("spec.replicas", {"replicas": 1001}),
    ("spec.replicas", {"replicas": "two"}),
    ("spec.image", {"image": ""}),
    ("spec.image", {"image": "x" * 1025}),
    ("spec.image", {"image": 7}),
    ("spec.image", {"image": "two words"}),
    ("spec.image", {"image": "https://ghcr.io/org/name"}),
    ("spec.image", {"image": "name:tag:tag"}),
    ("spec.image", {"image": "name@sha256:12"}),
    ("spec.server.port", {"server": {"port": 0}}),
    ("spec.server.port", {"server": {"port": 65536}}),
    ("spec.server.port", {"server": {"port": "http"}}),
    ("spec.server.path", {"server": {"path": "mcp"}}),
    ("spec.server.path", {"server": {"path": "/a b"}}),
    ("spec.server.command", {"server": {"command": "npx"}}),
    ("spec.server.command", {"server": {"command": ["x"] * 65}}),
    ("spec.server.args", {"server": {"args": [1]}}),
    ("spec.server.timeout", {"server": {"timeout": "soon"}}),
    ("spec.server.timeout", {"server": {"timeout": "-1s"}}),
    ("spec.server.timeout", {"server": {"timeout": "0s"}}),
    ("spec.server.timeout", {"server": {"timeout": "2540400h"}}),
    ("spec.server.tls.secretName", {"server": {"tls": {"enabled": True}}}),
    ("spec.server.tls.secretName", {"server": {"tls": {"secretName": ""}}}),
    ("spec.server.tls.secretName", {"server": {"tls": {"secretName": "../escape"}}}),
    ("spec.server.tls.enabled", {"server": {"tls": {"secretName": "cert", "enabled": "yes"}}}),
    ("spec.hpa.enabled", {"hpa": {"enabled": "on"}}),
    ("spec.hpa.config.maxReplicas", {"hpa": {**HPA, "config": {"minReplicas": 1}}}),
    ("spec.hpa.config.maxReplicas", {"hpa": {**HPA, "config": {"maxReplicas": 0}}}),
    ("spec.hpa.config.minReplicas", {"hpa": {**HPA, "config": {"minReplicas": 0, "maxReplicas": 2}}}),
    ("spec.hpa.config.minReplicas", {"hpa": {**HPA, "config": {"minReplicas": 3, "maxReplicas": 2}}}),
    ("spec.hpa.config.metrics", {"hpa": {**HPA, "config": {"maxReplicas": 2, "metrics": [{"type": 1}]}}}),
    ("spec.hpa.config.behavior", {"hpa": {**HPA, "config": {"maxReplicas": 2, "behavior": {"scaleUp": 1}}}}),
    (
        "spec.hpa.config.scaleTargetRef",
        {"hpa": {**HPA, "config": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "another"}}}},
    ),
    ("spec.env", {"env": [{"value": "nameless"}]}),
    ("spec.env", {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}),
    ("spec.envFrom", {"envFrom": [{"secretRef": "s"}]}),
    ("spec.resources", {"resources": {"requests": {"cpu": "lots"}}}),
    ("spec.resources", {"resources": {"limits": {"memory": "1 GB"}}}),
    ("spec.imagePullSecrets", {"imagePullSecrets": ["name"]}),
    ("spec.podSecurityContext.runAsUser", {"podSecurityContext": {"runAsUser": "root"}}),
    ("spec.securityContext.capabilities", {"securityContext": {"capabilities": ["ALL"]}}),
]


@pytest.mark.parametrize(("field", "spec"), BAD, ids=[f"{field} {number}" for number, (field, _) in enumerate(BAD)])
async def test_an_invalid_field_is_refused_by_name(cluster: Cluster, field: str, spec: dict[str, Any]) -> None:
    with pytest.raises(RawClientError) as refused:
        await cluster.controlplane.admin.create(COLLECTION, mcp("default", **spec))
    assert field in str(refused.value)


@pytest.mark.parametrize("name", ["a" * 56, "with.dot", "1digit"])
async def test_a_name_that_cannot_be_a_services_is_refused(cluster: Cluster, name: str) -> None:
    with pytest.raises(RawClientError, match=r"metadata\.name"):
        await cluster.controlplane.admin.create(COLLECTION, mcp("default", name))


async def test_a_field_that_does_not_exist_is_refused_by_strict_clients(cluster: Cluster) -> None:
    with pytest.raises(RawClientError, match=r"spec\.server\.prot"):
        await cluster.controlplane.admin.create(
            f"{COLLECTION}&fieldValidation=Strict", mcp("default", server={"prot": 1})
        )


@pytest.mark.parametrize("spec", [None, {}], ids=["no spec", "empty spec"])
async def test_the_default_object_is_accepted(cluster: Cluster, spec: dict[str, Any] | None) -> None:
    body = mcp("default")
    body |= {"spec": spec} if spec is not None else {}
    if spec is None:
        del body["spec"]
    stored = await cluster.controlplane.admin.create(COLLECTION, body)
    assert stored["metadata"]["name"] == "tools"


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 2, "server": {"port": 80, "command": ["/mcp-server"], "args": ["--verbose"], "timeout": "1m30s"}},
        {
            "hpa": {
                "enabled": True,
                "config": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "tools"}},
            }
        },
        {"server": {"tls": {"enabled": False, "secretName": ""}}},
        {"server": {"tls": {"enabled": False}}},
    ],
    ids=["ports below 1024", "scaleTargetRef of its own", "tls switched off", "tls switched off without a Secret"],
)
async def test_manifests_for_the_original_operator_are_accepted(cluster: Cluster, spec: dict[str, Any]) -> None:
    await cluster.controlplane.admin.create(COLLECTION, mcp("default", **spec))
