"""What a real API server makes of the manifests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from modelyard.core import field_types as kept
from modelyard.kinds import ALL
from modelyard.local.raw_client import RawClientError
from modelyard.manifests import operator
from modelyard.manifests.crd import crd
from modelyard.manifests.openapi import embedded_names, extract, published, text
from modelyard.manifests.render import documents
from tests.conftest import run_kubectl
from tests.manifests.toys import TOY
from tools import field_types

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from modelyard.core.objects import Json
    from modelyard.core.resources import Resource
    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl

APPLY = ("apply", "--server-side", "--force-conflicts", "--warnings-as-errors", "-f", "-")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MCP = ALL[0].resource


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.05)


async def served(cluster: Cluster, definition: Json) -> None:
    """Wait until objects of a new definition can be stored."""
    name, spec = definition["metadata"]["name"], definition["spec"]
    admin = cluster.controlplane.admin
    collection = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    await until(lambda: admin.answers(f"{DEFINITIONS}/{name}"))
    await until(lambda: admin.answers(collection))


@pytest.fixture(scope="module")
async def installed(cluster: Cluster, generated: dict[str, str]) -> Cluster:
    """The cluster with the CRDs of all kinds."""
    await run_kubectl(cluster, *APPLY, input=generated["crds.yaml"])
    for kind in ALL:
        await served(cluster, crd(kind))
    return cluster


@pytest.fixture
async def toys(cluster: Cluster, kubectl: Kubectl) -> AsyncIterator[Cluster]:
    """The cluster with the CRD of the toy kind, for one test."""
    definition = crd(TOY)
    await kubectl(*APPLY, input=documents([definition]))
    await served(cluster, definition)
    yield cluster
    path, admin = f"{DEFINITIONS}/{definition['metadata']['name']}", cluster.controlplane.admin

    async def gone() -> bool:
        return not await admin.answers(path)

    await admin.delete(path)
    await until(gone)


async def create(cluster: Cluster, resource: Resource, namespace: str, spec: Any, name: str = "it") -> Json:
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}
    path = resource.path(namespace) + "?fieldValidation=Strict"
    return await cluster.controlplane.admin.create(path, {key: part for key, part in body.items() if part is not None})


async def refused(cluster: Cluster, resource: Resource, namespace: str, spec: Json, name: str = "it") -> str:
    with pytest.raises(RawClientError) as refusal:
        await create(cluster, resource, namespace, spec, name)
    return str(refusal.value)


async def test_the_embedded_types_are_those_that_the_server_publishes(cluster: Cluster):
    document = await cluster.controlplane.admin.get("/openapi/v2")
    assert text(extract(document, embedded_names(ALL))) == text(published())


async def test_the_compared_types_are_those_that_the_server_publishes(cluster: Cluster):
    definitions = await field_types.schemas(cluster.controlplane.admin.get)
    # Which fields are pointers no server tells; tests/api/test_zeros.py asks about them in another way.
    pointers = {
        name: [field for field, kind in kept.FIELDS.get(field_types.short(name), {}).items() if kind.startswith("*")]
        for name in definitions
    }
    assert field_types.text(definitions, pointers) == Path(kept.__file__).read_text(encoding="utf-8")


async def test_every_crd_is_established_and_structural(installed: Cluster):
    for kind in ALL:
        stored = await installed.controlplane.admin.get(f"{DEFINITIONS}/{kind.resource.label}")
        assert {entry["type"]: entry["status"] for entry in stored["status"]["conditions"]} == {
            "Established": "True",
            "NamesAccepted": "True",
        }


async def test_the_whole_installation_is_accepted_without_a_warning(
    installed: Cluster, kubectl: Kubectl, generated: dict[str, str]
):
    await kubectl(*APPLY, input=generated["rbac.yaml"])
    answer = await kubectl(*APPLY, "--dry-run=server", input=generated["install.yaml"])
    assert len(answer.splitlines()) == len(list(yaml.load_all(generated["install.yaml"], yaml.CSafeLoader)))


async def test_the_page_is_accepted_without_a_warning_and_has_no_rights(kubectl: Kubectl, generated: dict[str, str]):
    await kubectl(*APPLY, input=documents([operator.namespace()]))
    answer = await kubectl(*APPLY, "--dry-run=server", input=generated["page.yaml"])
    assert answer.splitlines() == [
        "deployment.apps/modelyard-page serverside-applied (server dry run)",
        "service/modelyard-page serverside-applied (server dry run)",
    ]
    assert "automountServiceAccountToken: false" in generated["page.yaml"]


async def test_the_rights_for_one_namespace_are_accepted(kubectl: Kubectl, generated: dict[str, str]):
    await kubectl(*APPLY, input=documents([operator.namespace()]))
    await kubectl(*APPLY, "--dry-run=server", input=generated["rbac-namespace.yaml"])


async def test_the_operator_is_a_restricted_pod(cluster: Cluster, kubectl: Kubectl, generated: dict[str, str]):
    await kubectl(*APPLY, input=generated["rbac.yaml"])
    pod = operator.deployment()["spec"]["template"] | {"apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {"name": "operator", "namespace": "modelyard-system"}
    # The namespace enforces the restricted standard; a pod that breaks it is refused.
    await kubectl("create", "--dry-run=server", "-f", "-", input=msgspec.json.encode(pod).decode())


async def test_the_operator_may_read_one_secret_but_never_list_them(kubectl: Kubectl, generated: dict[str, str]):
    await kubectl(*APPLY, input=generated["rbac.yaml"])
    account = "--as=system:serviceaccount:modelyard-system:modelyard"

    async def granted() -> bool:
        return (await kubectl("auth", "can-i", "get", "secrets", "-A", account)).strip() == "yes"

    await until(granted)
    with pytest.raises(AssertionError, match="kubectl auth can-i list"):
        await kubectl("auth", "can-i", "list", "secrets", "-A", account)


async def test_explain_shows_the_fields_of_embedded_types(installed: Cluster, kubectl: Kubectl):
    async def explained() -> bool:
        try:
            answer = await kubectl("explain", f"{MCP.plural}.spec.env.valueFrom.secretKeyRef")
        except AssertionError:  # the API server publishes new schemas a moment later
            return False
        return "The key of the secret to select from" in answer

    await until(explained)


async def test_an_object_that_says_nothing_gets_all_defaults(installed: Cluster, namespace: str):
    stored = await create(installed, MCP, namespace, None)
    assert stored["spec"]["server"] == {"path": "/mcp", "port": 8080, "timeout": "30s"}
    assert stored["spec"]["replicas"] == 1
    assert "env" not in stored["spec"]


async def test_defaults_of_nested_objects_appear(toys: Cluster, namespace: str):
    stored = await create(toys, TOY.resource, namespace, {"colour": "red", "trailer": {}, "free": {"any": [1]}})
    assert stored["spec"] == {
        "colour": "red", "wheels": {"howMany": 4}, "tricycle": {"howMany": 3}, "trailer": {"howMany": 4},
        "size": "100%", "weight": 0, "loud": False, "age": 3, "free": {"any": [1]},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]},
            "spec.env[0].valueFrom.secretKeyRef.key",
        ),
        ({"env": [{"nam": "A"}]}, 'unknown field "spec.env[0].nam"'),
        ({"resources": {"limits": {"cpu": "lots"}}}, "spec.resources.limits.cpu"),
        ({"securityContext": {"seccompProfile": {"type": "Loose"}}}, "spec.securityContext.seccompProfile.type"),
        ({"server": {"timeout": "2h"}}, "spec.server.timeout: Invalid value"),
        ({"server": {"port": 70000}}, "spec.server.port"),
    ],
)
async def test_a_bad_field_is_refused_by_name(installed: Cluster, namespace: str, spec: Json, message: str):
    assert message in await refused(installed, MCP, namespace, spec)


async def test_a_rule_about_the_name_points_at_the_name(installed: Cluster, namespace: str):
    assert "metadata.name: Invalid value" in await refused(installed, MCP, namespace, {}, name="x.y")


async def test_a_rule_over_a_list_is_cheap_enough_and_enforced(toys: Cluster, namespace: str):
    assert "x is no name" in await refused(toys, TOY.resource, namespace, {"colour": "red", "names": ["x"]})


async def test_what_was_stored_before_there_were_rules_can_still_be_told_its_status(
    toys: Cluster, namespace: str, kubectl: Kubectl
):
    admin, path = toys.controlplane.admin, TOY.resource.path(namespace)
    bad = {"colour": "red", "names": ["x"], "loud": True, "weight": 100}

    async def taken() -> bool:
        body = {"apiVersion": TOY.resource.api_version, "kind": "Toy", "metadata": {"name": "other"}, "spec": bad}
        try:
            await admin.create(f"{path}?dryRun=All", body)
        except RawClientError:
            return False
        return True

    async def refused_again() -> bool:
        return not await taken()

    await kubectl(*APPLY, input=documents([crd(replace(TOY, rules=()))]))
    await until(taken)
    await create(toys, TOY.resource, namespace, bad, name="gun")
    await kubectl(*APPLY, input=documents([crd(TOY)]))
    await until(refused_again)
    assert (await admin.patch(f"{path}/gun/status", {"status": {"ready": True}}))["status"] == {"ready": True}
    assert (await admin.patch(f"{path}/gun", {"metadata": {"labels": {"a": "b"}}}))["metadata"]["labels"] == {"a": "b"}
