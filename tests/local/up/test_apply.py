"""Any kind of object can be applied, and what cannot is named with its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.transport import HttpTransport
from modelyard.local.up.apply import apply_all
from modelyard.manifests.documents import BadManifest, Document

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl


@pytest.fixture
async def client(cluster: Cluster, installed: Path) -> AsyncIterator[Client]:
    client = Client(HttpTransport(from_kubeconfig([cluster.kubeconfig])))
    yield client
    await client.close()


def given(namespace: str, api_version: str, kind: str, name: str = "x", **rest: Any) -> Document:
    meta = {"name": name, "namespace": namespace}
    return Document("a.yaml", {"apiVersion": api_version, "kind": kind, "metadata": meta, **rest})


async def test_objects_of_several_kinds_are_applied_in_the_name_of_kubectl(
    client: Client, namespace: str, kubectl: Kubectl
) -> None:
    await apply_all(
        client,
        [
            given(namespace, "v1", "ConfigMap", data={"a": "b"}),
            given(namespace, "apps/v1", "Deployment", spec=deployment()),
            given(namespace, "inference.llmkube.dev/v1alpha1", "Model", spec={"source": "a/b"}),
        ],
    )
    what = ("get", "configmap/x", "deployment/x", "model/x", f"--namespace={namespace}", "--show-managed-fields")
    managers = await kubectl(*what, "-o", "jsonpath={.items[*].metadata.managedFields[0].manager}")
    assert managers.split() == ["kubectl", "kubectl", "kubectl"]


async def test_a_kind_that_nobody_knows_is_named_and_nothing_is_applied(
    client: Client, namespace: str, kubectl: Kubectl
) -> None:
    first = given(namespace, "v1", "ConfigMap", name="never")
    with pytest.raises(BadManifest, match=r"a.yaml: there is no kind Pood in v1 \(it has .*Pod, .*\); correct"):
        await apply_all(client, [first, given(namespace, "v1", "Pood")])
    with pytest.raises(BadManifest, match=r"no kind Thing in example.com/v1 \(no such API is installed\)"):
        await apply_all(client, [first, given(namespace, "example.com/v1", "Thing")])
    assert "never" not in await kubectl("get", "configmaps", f"--namespace={namespace}")


@pytest.mark.parametrize(
    ("spec", "field"),
    [({"modelRef": "m", "replicas": -1}, "spec.replicas"), ({"modelRef": "m", "replica": 1}, "spec.replica")],
)
async def test_what_the_api_server_refuses_is_named_with_the_field(
    client: Client, namespace: str, spec: dict[str, Any], field: str
) -> None:
    wrong = given(namespace, "inference.llmkube.dev/v1alpha1", "InferenceService", spec=spec)
    with pytest.raises(BadManifest, match=rf"^a.yaml: InferenceService x is refused: .*{field}.*; correct the file$"):
        await apply_all(client, [wrong])


async def test_what_was_applied_before_a_refusal_is_named_namespaces_first(
    client: Client, namespace: str, kubectl: Kubectl
) -> None:
    later = f"{namespace}-later"
    documents = [
        given(later, "v1", "ConfigMap"),
        given(namespace, "v1", "ConfigMap", name="B"),
        Document("b.yaml", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": later}}),
    ]
    with pytest.raises(BadManifest, match=rf"; correct the file\. Applied before it: Namespace {later}, ConfigMap x$"):
        await apply_all(client, documents)
    await kubectl("delete", "namespace", later, "--wait=false")


async def test_a_name_that_is_a_path_leads_nowhere(client: Client, namespace: str) -> None:
    with pytest.raises(BadManifest, match=r"is refused: '\.\./secrets/x' cannot be the name of an object; correct"):
        await apply_all(client, [given(namespace, "v1", "ConfigMap", name="../secrets/x")])


def deployment() -> dict[str, Any]:
    labels = {"app": "x"}
    containers = [{"name": "main", "image": "x"}]
    return {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
    }
