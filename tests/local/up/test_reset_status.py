"""After a start nothing is ready by the processes of the last one, and what is not ours to say stays."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.transport import HttpTransport
from modelyard.local.up.reset_status import reset_status

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl

TRUE = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
MANAGED = "endpointslice.kubernetes.io/managed-by"


def pod(name: str, node: str) -> dict[str, Any]:
    containers = [{"name": "a", "image": "a"}]
    # No node is there to end it when the namespace goes.
    spec = {"nodeName": node, "containers": containers, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def slice_of(name: str, manager: str) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {MANAGED: manager}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [{"port": 80}],
    }


INFERENCE = "inference.llmkube.dev/v1alpha1"
META = {"metadata": {"name": "served"}}
OBJECTS: tuple[dict[str, Any], ...] = (
    {"apiVersion": INFERENCE, "kind": "Model", **META, "spec": {"source": "https://example.com/a.gguf"}},
    {"apiVersion": INFERENCE, "kind": "InferenceService", **META, "spec": {"modelRef": "served"}},
    {"apiVersion": "core.inference-gateway.com/v1alpha1", "kind": "MCP", **META, "spec": {"image": "tools"}},
    {
        "apiVersion": "ai.example.com/v1alpha1",
        "kind": "ModelDeployment",
        **META,
        "spec": {"modelName": "a", "modelSource": "https://example.com/a.gguf"},
    },
    {"apiVersion": "core.inference-gateway.com/v1alpha1", "kind": "Agent", **META, "spec": {"image": "calendar"}},
    {
        "apiVersion": "modelyard.dev/v1alpha1",
        "kind": "ZerfooInferenceService",
        **META,
        "spec": {"modelRef": "a", "replicas": 1, "healthCheck": {"path": "/", "interval": "1s", "timeout": "1s"}},
    },
)


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    # Paused, so that its controller leaves the status alone.
    spec = {"replicas": 1, "paused": True, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


@pytest.mark.usefixtures("installed")
async def test_ready_pods_of_the_node_and_lists_of_the_controller_are_taken_back(
    cluster: Cluster, namespace: str, kubectl: Kubectl
) -> None:
    here = f"--namespace={namespace}"
    objects = [
        pod("ours", "old-machine"),
        pod("new", "old-machine"),
        pod("theirs", "another"),
        slice_of("made", "endpointslice-controller.k8s.io"),
        slice_of("written", "somebody"),
    ]
    await kubectl("apply", here, "-f", "-", input=yaml.safe_dump_all(objects))
    conditions = [{"type": name, **TRUE} for name in ("Initialized", "Ready", "ContainersReady")]
    status = json.dumps({"status": {"phase": "Running", "conditions": conditions}})
    for name in ("ours", "theirs"):
        await kubectl("patch", "pod", name, here, "--subresource=status", f"--patch={status}")
    client = Client(HttpTransport(from_kubeconfig([cluster.kubeconfig])))
    await reset_status(client, "old-machine")
    await client.close()

    async def read(what: str, path: str) -> str:
        return await kubectl("get", what, here, "-o", f"jsonpath={path}")

    truths = "{range .status.conditions[*]}{.type}={.status} {end}"
    assert "Initialized=True Ready=False ContainersReady=False" in await read("pod/ours", truths)
    assert "Ready=True ContainersReady=True" in await read("pod/theirs", truths)
    assert "Ready" not in await read("pod/new", truths)
    assert "10.0.0.1" not in await read("endpointslice/made", "{.endpoints}")
    assert "10.0.0.1" in await read("endpointslice/written", "{.endpoints}")


@pytest.mark.usefixtures("installed")
async def test_services_of_the_last_start_are_not_ready_and_models_still_are(
    cluster: Cluster, namespace: str, kubectl: Kubectl
) -> None:
    here = f"--namespace={namespace}"
    statuses: dict[str, dict[str, Any]] = {
        "inferenceservice": {"phase": "Ready", "readyReplicas": 1},
        "mcp": {"ready": True},
        "agent": {"ready": True},
        "model": {"phase": "Ready"},
        "modeldeployment": {"phase": "Running", "readyPods": 1},
        "zerfooinferenceservice": {"phase": "Ready", "tracks": [{"name": "primary", "model": "a", "readyReplicas": 1}]},
    }
    await kubectl("apply", here, "-f", "-", input=yaml.safe_dump_all([*OBJECTS, deployment("served")]))
    types = {"agent": ("Ready", "CardFetched")}
    for kind, fields in statuses.items():
        stated = types.get(kind, ("Ready", "Other"))
        conditions = [{"type": name, "reason": "Ready", "message": "", **TRUE} for name in stated]
        status = json.dumps({"status": {**fields, "conditions": conditions}})
        await kubectl("patch", kind, "served", here, "--subresource=status", "--type=merge", f"--patch={status}")
    ready = json.dumps({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}})
    await kubectl("patch", "deployment", "served", here, "--subresource=status", f"--patch={ready}")
    client = Client(HttpTransport(from_kubeconfig([cluster.kubeconfig])))
    await reset_status(client, "old-machine")
    await client.close()

    async def read(what: str, path: str) -> str:
        return await kubectl("get", what, "served", here, "-o", f"jsonpath={path}")

    truths = "{range .status.conditions[*]}{.type}={.status} {end}"
    assert await read("inferenceservice", "{.status.phase} {.status.readyReplicas} " + truths) == (
        "Creating 0 Ready=False Other=True "
    )
    assert await read("modeldeployment", "{.status.phase} {.status.readyPods} " + truths) == (
        "Deploying 0 Ready=False Other=True "
    )
    assert await read("zerfooinferenceservice", "{.status.phase} {.status.tracks[0].readyReplicas} " + truths) == (
        "Pending 0 Ready=False Other=True "
    )
    assert await read("mcp", "{.status.ready} " + truths) == "false Ready=False Other=True "
    assert await read("agent", "{.status.ready} " + truths) == "false Ready=False CardFetched=Unknown "
    assert await read("model", "{.status.phase} " + truths) == "Ready Ready=True Other=True "
    assert await read("deployment", "{.status.readyReplicas}{.status.availableReplicas}") == ""
