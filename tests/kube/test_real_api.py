"""Client and follower on a real API server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from modelyard.core.resources import DEPLOYMENT, SECRET, Key, Resource
from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig, in_cluster
from modelyard.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from modelyard.kube.transport import HttpTransport
from modelyard.kube.watch import Target, Timing, follow
from tests.kube.test_watch import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.kube.connection import Connection
    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl

CONFIGMAP = Resource("", "v1", "ConfigMap", "configmaps")
DEFINITION = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
WIDGET = Resource("kube-tests.modelyard.dev", "v1", "Widget", "widgets")


@asynccontextmanager
async def connected(connection: Connection) -> AsyncIterator[Client]:
    client = Client(HttpTransport(connection))
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with connected(from_kubeconfig([cluster.kubeconfig])) as admin:
        yield admin


@asynccontextmanager
async def following(client: Client, target: Target, timing: Timing | None = None) -> AsyncIterator[Recorder]:
    sink = Recorder()
    task = asyncio.create_task(follow(client, target, sink, restarted=sink.restarted, timing=timing))
    try:
        yield sink
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def configmap(namespace: str, name: str, **data: str) -> dict[str, Any]:
    metadata = {"namespace": namespace, "name": name, "labels": {"app": "x"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def deployment(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    full = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod, **spec}
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": full}


async def test_an_object_lives_from_create_to_delete(client: Client, namespace: str) -> None:
    key = Key(namespace, "one")
    created = await client.create(CONFIGMAP, configmap(namespace, "one", a="1"))
    assert await client.get(CONFIGMAP, key) == created

    merged = await client.merge_patch(CONFIGMAP, key, {"data": {"b": "2"}})
    assert merged.meta.revision > created.meta.revision
    tested = [{"op": "test", "path": "/data/b", "value": "2"}, {"op": "replace", "path": "/data/b", "value": "3"}]
    assert (await client.json_patch(CONFIGMAP, key, tested)).part("data") == {"a": "1", "b": "3"}
    applied = await client.apply(CONFIGMAP, key, configmap(namespace, "one", c="4"))
    assert applied.part("data") == {"a": "1", "b": "3", "c": "4"}
    fields = (await client.get_full(CONFIGMAP, key))["metadata"]["managedFields"]
    assert {(entry["manager"], entry["operation"]) for entry in fields} == {
        ("modelyard", "Update"),
        ("modelyard", "Apply"),
    }

    await client.delete(CONFIGMAP, key, created.meta.uid)
    with pytest.raises(NotFound):
        await client.get(CONFIGMAP, key)


async def test_the_scale_of_a_deployment_is_read_and_written(client: Client, namespace: str) -> None:
    key = Key(namespace, "one")
    await client.create(DEPLOYMENT, deployment(namespace, "one"))
    await client.merge_patch(DEPLOYMENT, key, {"spec": {"replicas": 2}}, "scale")
    assert (await client.get_full(DEPLOYMENT, key, "scale"))["spec"] == {"replicas": 2}


async def test_refusals_are_told_apart(client: Client, namespace: str) -> None:
    key = Key(namespace, "one")
    created = await client.create(CONFIGMAP, configmap(namespace, "one"))
    with pytest.raises(AlreadyExists):
        await client.create(CONFIGMAP, configmap(namespace, "one"))
    with pytest.raises(Conflict):
        await client.delete(CONFIGMAP, key, "00000000-0000-0000-0000-000000000000")
    await client.merge_patch(CONFIGMAP, key, {"data": {"x": "y"}})
    with pytest.raises(Conflict):
        await client.replace(CONFIGMAP, key, created.to_dict())
    with pytest.raises(Invalid) as caught:
        await client.create(DEPLOYMENT, deployment(namespace, "two", replicas=-1))
    assert [cause.field for cause in caught.value.causes] == ["spec.replicas"]
    with pytest.raises(NotFound):
        await client.list_page(WIDGET)


async def test_a_list_comes_in_pages(client: Client, namespace: str) -> None:
    for name in ("one", "two", "three"):
        await client.create(CONFIGMAP, configmap(namespace, name))
    first = await client.list_page(CONFIGMAP, namespace, "app=x", limit=2)
    second = await client.list_page(CONFIGMAP, namespace, "app=x", limit=2, token=first.token)
    assert [item.meta.name for item in first.items + second.items] == ["one", "three", "two"]
    assert (first.revision, second.token) == (second.revision, "")


async def test_what_is_no_object_can_be_read(client: Client) -> None:
    assert await client.raw("/readyz") == b"ok"


async def account(cluster: Cluster, kubectl: Kubectl, namespace: str, folder: Path) -> Connection:
    """Connect as the namespace's own service account does from within a pod. It has no rights at all."""
    admin = from_kubeconfig([cluster.kubeconfig])
    token = await kubectl("create", "token", "default", "-n", namespace)
    for name, content in {"token": token, "namespace": namespace, "ca.crt": admin.authority}.items():
        (folder / name).write_text(content)
    url = urlsplit(admin.server)
    pod = {"KUBERNETES_SERVICE_HOST": str(url.hostname), "KUBERNETES_SERVICE_PORT": str(url.port)}
    return in_cluster(pod, folder)


async def test_a_missing_rule_is_named(cluster: Cluster, kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    async with connected(await account(cluster, kubectl, namespace, tmp_path)) as nobody:
        with pytest.raises(Forbidden, match="role") as caught:
            await nobody.get(SECRET, Key(namespace, "one"))
        assert (caught.value.verb, caught.value.resource) == ("get", "secrets")
        async with following(nobody, Target(DEPLOYMENT)) as sink:
            await sink.hears("trouble Forbidden")
        assert isinstance(sink.troubles[0], Forbidden)
        assert (sink.troubles[0].verb, sink.troubles[0].resource) == ("watch", "deployments.apps")


async def test_a_follower_starts_when_the_rule_is_there(
    cluster: Cluster, kubectl: Kubectl, namespace: str, tmp_path: Path
) -> None:
    async with connected(await account(cluster, kubectl, namespace, tmp_path)) as somebody:
        async with following(somebody, Target(CONFIGMAP, namespace)) as sink:
            await sink.hears("trouble Forbidden")
            rights = ("--clusterrole=view", f"--serviceaccount={namespace}:default", "-n", namespace)
            await kubectl("create", "rolebinding", "reads", *rights)
            await sink.hears("fine")
    assert "kube-root-ca.crt" in sink.items


async def test_a_follower_sees_everything_that_happens(client: Client, namespace: str) -> None:
    before = await client.create(CONFIGMAP, configmap(namespace, "before"))
    async with following(client, Target(CONFIGMAP, namespace, "app=x")) as sink:
        await sink.until(lambda: "before" in sink.items)
        after = await client.create(CONFIGMAP, configmap(namespace, "after"))
        await sink.hears(f"upsert after @{after.meta.revision}")
        await client.delete(CONFIGMAP, before.meta.key, before.meta.uid)
        await sink.until(lambda: set(sink.items) == {"after"})
        # Without its label it is none of our objects any more, which the server says by a deletion.
        bare = await client.merge_patch(CONFIGMAP, after.meta.key, {"metadata": {"labels": None}})
        await sink.hears(f"remove after @{bare.meta.revision}")
    assert sink.troubles == []


async def test_a_follower_that_lists_sees_the_same(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAP, configmap(namespace, "before"))
    # No time at all for the first state over the stream: so it is listed.
    async with following(client, Target(CONFIGMAP, namespace, "app=x"), Timing(initial=0.0)) as sink:
        await sink.until(lambda: "before" in sink.items)
        after = await client.create(CONFIGMAP, configmap(namespace, "after"))
        await sink.hears(f"upsert after @{after.meta.revision}")
    assert sink.troubles == []


async def test_a_follower_survives_silence(client: Client, namespace: str) -> None:
    async with following(client, Target(CONFIGMAP, namespace, "app=x"), Timing(idle=0.3)) as sink:
        for number in range(3):
            await sink.hears("restarted", number + 1)
            await client.create(CONFIGMAP, configmap(namespace, f"number-{number}"))
        await sink.until(lambda: len(sink.items) == 3)
    # A server that is slow to open a stream is silent too, and that is trouble; what was seen stays seen.
    taken = [verb for call in sink.calls if (verb := call.split()[0]) in ("replace", "upsert")]
    assert taken == ["replace", "upsert", "upsert", "upsert"]


async def test_a_resource_is_followed_from_its_definition_to_its_end(client: Client, namespace: str) -> None:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": WIDGET.label},
        "spec": {
            "group": WIDGET.group,
            "names": {"kind": WIDGET.kind, "plural": WIDGET.plural},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    widget = {
        "apiVersion": WIDGET.api_version,
        "kind": WIDGET.kind,
        "metadata": {"namespace": namespace, "name": "one"},
    }
    async with following(client, Target(WIDGET), Timing(longest_wait=1.0)) as sink:
        await sink.hears("trouble NotFound")
        for times in (1, 2):
            defined = await client.create(DEFINITION, definition)
            await sink.hears("fine", times)
            await client.create(WIDGET, widget)
            await sink.until(lambda: "one" in sink.items)
            await client.delete(DEFINITION, defined.meta.key, defined.meta.uid)
            await sink.hears("trouble NotFound", times + 1)
    assert sink.items == {}
