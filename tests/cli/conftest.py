"""What the tests of the verbs share: a namespace `team` with objects in many states, and users with fewer rights."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from modelyard.core.resources import EVENT, POD, VOLUME_CLAIM
from modelyard.kinds import ALL
from modelyard.local.kubeconfig import write_kubeconfig
from tests.support.accounts import until_allowed, until_answered
from tests.support.own_network import own_address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.core.resources import Resource
    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient

Json = dict[str, Any]

# An API server passes no request on to loopback. On a machine that has nothing else, tests that need it are run in a
# network of their own.
NOT_LOOPBACK = ("test_ask.py", "test_figures.py")
collect_ignore = ["test_in_own_network.py"] if own_address() else [*NOT_LOOPBACK]

TEAM = "team"
_RESOURCES = {resource.kind: resource for resource in (*(kind.resource for kind in ALL), POD, EVENT, VOLUME_CLAIM)}
_SCENE = Path(__file__).with_name("scene.yaml")


@pytest.fixture(scope="module")
async def scene(cluster: Cluster, installed: Path) -> AsyncIterator[Path]:
    """The kubeconfig of an administrator of a cluster with the objects of scene.yaml."""
    admin, bodies = cluster.controlplane.admin, list(yaml.safe_load_all(_SCENE.read_text()))
    await admin.ensure("/api/v1/namespaces", {"metadata": {"name": TEAM}})
    await until_account(admin, TEAM)
    try:
        for body in bodies:
            await store(admin, TEAM, body)
        yield cluster.kubeconfig
    finally:
        # Operators of other tests would go on with what is left.
        for body in bodies:
            await admin.delete(f"{_path(body, TEAM)}?gracePeriodSeconds=0")
        await until_gone(admin, [_path(body, TEAM) for body in bodies])


async def until_gone(admin: RawClient, paths: list[str]) -> None:
    """Wait for finalizers: the next file makes objects of the same names."""
    async with asyncio.timeout(60):
        for path in paths:
            while await admin.answers(path):
                await asyncio.sleep(0.02)


async def until_account(admin: RawClient, namespace: str) -> None:
    """Wait for the service account without which pods are refused."""
    await until_answered(admin, f"/api/v1/namespaces/{namespace}/serviceaccounts/default")


async def store(admin: RawClient, namespace: str, body: Json) -> None:
    """Create an object, and give it a status of its own generation."""
    resource, status = _resource(body), body.get("status")
    stored = await admin.create(resource.path(namespace), body)
    if status is None:
        return
    generation = {} if resource == POD else {"observedGeneration": stored["metadata"]["generation"]}
    status = {**status, **generation, "conditions": [_timed(one, stored) for one in status["conditions"]]}
    await admin.patch(resource.path(namespace, body["metadata"]["name"], "status"), {"status": status})


def _timed(condition: Json, stored: Json) -> Json:
    return {**condition, "lastTransitionTime": stored["metadata"]["creationTimestamp"]}


def _path(body: Json, namespace: str) -> str:
    return _resource(body).path(namespace, body["metadata"]["name"])


def _resource(body: Json) -> Resource:
    return _RESOURCES[body["kind"]]


@pytest.fixture(scope="session")
def stranger(cluster: Cluster) -> Path:
    """The kubeconfig of a user who may do nothing."""
    return cluster.controlplane.client_kubeconfig("stranger")


@pytest.fixture(scope="session")
async def reader(cluster: Cluster) -> Path:
    """The kubeconfig of a user who may read InferenceServices, and nothing else."""
    admin, rbac = cluster.controlplane.admin, "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": ["*"], "resources": ["inferenceservices"], "verbs": ["get"]}]
    await admin.ensure(f"{rbac}/clusterroles", {"metadata": {"name": "reader"}, "rules": rules})
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    }
    await admin.ensure(f"{rbac}/clusterrolebindings", binding)
    what = {"verb": "get", "group": "inference.llmkube.dev", "resource": "inferenceservices"}
    await until_allowed(cluster.controlplane, "reader", what)
    return cluster.controlplane.client_kubeconfig("reader")


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig of a cluster that does not answer."""
    folder = tmp_path_factory.mktemp("elsewhere")
    return write_kubeconfig(folder / "config", "https://127.0.0.1:1", b"", {"token": "none"})


@pytest.fixture(scope="session")
def undefined(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig of the same API server below a path where it serves nothing, as one without our definitions."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] += "/apis/undefined.example.com/v1"
    file = tmp_path_factory.mktemp("undefined") / "config"
    file.write_text(yaml.safe_dump(config))
    return file
