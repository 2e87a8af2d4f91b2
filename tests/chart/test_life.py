"""A release from the first chart to its end, on a real cluster, with the operator under the rights that it grants."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest
from msgspec import Struct

from modelyard.core.resources import DEPLOYMENT, PRIORITY_CLASS, SERVICE_ACCOUNT, VOLUME_CLAIM, Resource
from modelyard.kinds import ALL
from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.mcp import MCP
from modelyard.kinds.model import MODEL
from modelyard.local.cluster import Cluster, running_cluster
from modelyard.local.raw_client import RawClientError
from modelyard.manifests.render import documents
from tests.chart.helm import CHART, FIRST_CHART, HelmError, helm, render
from tests.chart.test_rendered import EVERY_OPTION
from tests.conftest import run_kubectl
from tests.support import mcps, prometheus, services
from tests.support.accounts import until_children_are_taken
from tests.support.operators import running_operator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from modelyard.kinds.contract import Kind
    from modelyard.local.raw_client import RawClient
    from tests.support.mcpserver import McpServers

RELEASE, NAMESPACE, TEAM = "yard", "yards", "team"
NAME = "yard-modelyard"
WHERE = ("--namespace", NAMESPACE)
ROLE = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
KINDS_OF_THE_FIRST = (MCP, MODEL, INFERENCE_SERVICE)
NEW_FIELD = {"modelCache": {"persistence": "Cached"}}
KEPT = (VOLUME_CLAIM.path(TEAM, services.CLAIM), PRIORITY_CLASS.path("", "llmkube-normal"))
SECONDS = 60.0


class Upgraded(Struct, frozen=True):
    """A cluster with a release that began as the first chart."""

    cluster: Cluster
    uids: dict[str, str]
    """Of the objects from before the upgrade, by path."""
    refusal: str
    """What the first definitions said to a field that only the present ones have."""

    @property
    def admin(self) -> RawClient:
        return self.cluster.controlplane.admin

    def helm(self, *args: str | Path) -> str:
        return helm(*args, kubeconfig=self.cluster.kubeconfig)

    async def uids_now(self) -> dict[str, str]:
        return await uids(self.admin, self.uids)


@pytest.fixture(scope="module")
async def upgraded(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Upgraded]:
    """A cluster of its own: in the shared one, `kubectl` has installed the same objects."""
    async with running_cluster(tmp_path_factory.mktemp("helm"), assets) as cluster:
        admin = cluster.controlplane.admin
        helm("install", RELEASE, FIRST_CHART, "--create-namespace", *WHERE, kubeconfig=cluster.kubeconfig)
        await until_served(admin, KINDS_OF_THE_FIRST)
        await admin.create("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        with pytest.raises(RawClientError) as refused:
            await create_with_new_field(admin)
        await mcps.create(admin, TEAM)
        await services.create_pair(admin, TEAM)
        paths = (MCP.resource.path(TEAM, "tools"), services.SERVICES.path(TEAM, "chat"))
        before = await uids(admin, paths)
        helm("upgrade", RELEASE, CHART, *WHERE, kubeconfig=cluster.kubeconfig)
        await until_served(admin, ALL)
        yield Upgraded(cluster, before, str(refused.value))


async def create_with_new_field(admin: RawClient) -> None:
    body = services.service(TEAM, "new", **NEW_FIELD)
    await admin.create(f"{services.SERVICES.path(TEAM)}?fieldValidation=Strict&dryRun=All", body)


async def takes_the_new_field(admin: RawClient) -> bool:
    try:
        await create_with_new_field(admin)
    except RawClientError:
        return False
    return True


async def uids(admin: RawClient, paths: Iterable[str]) -> dict[str, str]:
    return {path: (await admin.get(path))["metadata"]["uid"] for path in paths}


async def until_served(admin: RawClient, kinds: Iterable[Kind]) -> None:
    async with asyncio.timeout(SECONDS):
        for kind in kinds:
            while not await admin.answers(kind.resource.path()):
                await asyncio.sleep(0.05)


async def until_ready(admin: RawClient, path: str) -> None:
    async with asyncio.timeout(SECONDS):
        while mcps.condition(await admin.get(path), "Ready").get("status") != "True":
            await asyncio.sleep(0.1)


async def test_an_upgrade_brings_new_fields_and_kinds_and_keeps_objects(upgraded: Upgraded) -> None:
    assert 'unknown field "spec.modelCache"' in upgraded.refusal
    async with asyncio.timeout(SECONDS):
        while not await takes_the_new_field(upgraded.admin):
            await asyncio.sleep(0.05)  # the API server follows a changed definition a moment later
    assert await upgraded.uids_now() == upgraded.uids


async def test_the_operator_serves_under_exactly_the_rights_of_the_release(
    upgraded: Upgraded, mcp_servers: McpServers, tmp_path: Path
) -> None:
    account = await upgraded.cluster.controlplane.service_account_kubeconfig(NAMESPACE, NAME)
    await until_children_are_taken(account, KINDS_OF_THE_FIRST)
    log = tmp_path / "operator.log"
    async with running_operator(account, mcp_servers.port, log, LEASE_NAMESPACE=NAMESPACE) as operator:
        for path in upgraded.uids:
            await until_ready(upgraded.admin, path)
        assert re.findall(r'api_requests_total\{code="40[13]".*', await operator.metrics()) == []


async def test_an_operator_for_one_namespace_serves_under_its_rights(
    upgraded: Upgraded, mcp_servers: McpServers, tmp_path: Path
) -> None:
    await upgraded.admin.create("/api/v1/namespaces", {"metadata": {"name": "alone"}})
    sets = ("namespace=alone", "crds.install=false", "priorityClasses.install=false")
    upgraded.helm("install", "alone", CHART, *WHERE, *(word for value in sets for word in ("--set", value)))
    account = await upgraded.cluster.controlplane.service_account_kubeconfig(NAMESPACE, "alone-modelyard")
    await mcps.create(upgraded.admin, "alone")
    env = {"LEASE_NAMESPACE": NAMESPACE, "WATCH_NAMESPACE": "alone"}
    async with running_operator(account, mcp_servers.port, tmp_path / "operator.log", **env) as operator:
        await until_ready(upgraded.admin, MCP.resource.path("alone", "tools"))
        assert re.findall(r'api_requests_total\{code="40[13]".*', await operator.metrics()) == []
    upgraded.helm("uninstall", "alone", *WHERE)


async def test_what_is_optional_fits_the_definitions_of_others(upgraded: Upgraded) -> None:
    files = [word for file in prometheus.definitions() for word in ("-f", str(file))]
    await run_kubectl(upgraded.cluster, "apply", "--server-side", *files)
    await run_kubectl(upgraded.cluster, "wait", "--for=condition=Established", "crd", "--all")
    objects = render(*EVERY_OPTION, "crds.install=false", release=RELEASE, namespace=NAMESPACE)
    apply = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--warnings-as-errors", "-f", "-")
    said = await run_kubectl(upgraded.cluster, *apply, input=documents(objects.values()))
    assert len(said.splitlines()) == len(objects)


async def test_after_an_uninstall_objects_and_weights_are_there_and_the_next_install_takes_them_over(
    upgraded: Upgraded,
) -> None:
    admin = upgraded.admin
    # Of this name and without an owner, as the operator makes it.
    spec = {"accessModes": ["ReadWriteOnce"], "resources": services.CLAIM_SIZE}
    await admin.ensure(VOLUME_CLAIM.path(TEAM), {"metadata": {"name": services.CLAIM}, "spec": spec})
    before = {**upgraded.uids, **await uids(admin, KEPT)}
    upgraded.helm("uninstall", RELEASE, *WHERE)
    assert await uids(admin, before) == before
    await until_served(admin, ALL)
    gone = (DEPLOYMENT.path(NAMESPACE, NAME), ROLE.path("", NAME), SERVICE_ACCOUNT.path(NAMESPACE, NAME))
    assert [path for path in gone if await admin.answers(path)] == []
    with pytest.raises(HelmError, match="invalid ownership metadata"):
        upgraded.helm("install", "other", CHART, *WHERE, "--dry-run=server")
    upgraded.helm("install", "other", CHART, *WHERE, "--dry-run=server", "--take-ownership")
    upgraded.helm("install", RELEASE, CHART, *WHERE)
    assert await uids(admin, before) == before
