"""An operator with fewer rights than it asks for: what it may not read is said, and holds up nothing else."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from modelyard.core.times import timestamp
from modelyard.kinds import ALL
from modelyard.kinds.gateway import GATEWAY
from modelyard.kinds.orchestrator import ORCHESTRATOR
from modelyard.manifests import rbac
from tests.conftest import fresh_namespace, recording_all
from tests.support import agents, gateways, mcps, orchestrators
from tests.support.accounts import until_allowed
from tests.support.mcps import condition, says
from tests.support.operators import NAMESPACE, running_operator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from modelyard.local.controlplane import ControlPlane
    from tests.support.mcpserver import McpServers
    from tests.support.recorder import Recorder, Witness

Json = dict[str, Any]

ROLES = "/apis/rbac.authorization.k8s.io/v1"


def without_secrets(manifests: list[Json]) -> list[Json]:
    """Return roles that let nobody read Secrets."""
    return [{**body, "rules": _left(body["rules"])} if "rules" in body else body for body in manifests]


def _left(rules: list[Json]) -> list[Json]:
    kept = ({**rule, "resources": [name for name in rule["resources"] if name != "secrets"]} for rule in rules)
    return [rule for rule in kept if rule["resources"]]


@asynccontextmanager
async def account(controlplane: ControlPlane, name: str, manifests: list[Json]) -> AsyncIterator[Path]:
    """Give the rights of these manifests to another service account while the block lasts; return its kubeconfig."""
    admin = controlplane.admin
    await admin.ensure(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}})
    paths = [await _grant(controlplane, name, body) for body in manifests if body["kind"] != "ServiceAccount"]
    what = {"verb": "watch", "group": ORCHESTRATOR.resource.group, "resource": ORCHESTRATOR.resource.plural}
    served = next((path.split("/")[5] for path in paths if "/namespaces/" in path), "")
    await until_allowed(controlplane, f"system:serviceaccount:{NAMESPACE}:{name}", {**what, "namespace": served})
    try:
        yield await controlplane.service_account_kubeconfig(NAMESPACE, name)
    finally:
        for path in paths:
            await admin.delete(path)


async def _grant(controlplane: ControlPlane, account: str, body: Json) -> str:
    """Create a role or a binding under another name, and return its path."""
    meta = {**body["metadata"], "name": f"{account}-{body['metadata']['name']}"}
    place = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    path = f"{ROLES}{place}/{body['kind'].lower()}s"
    if "roleRef" in body:
        role = {**body["roleRef"], "name": f"{account}-{body['roleRef']['name']}"}
        subject = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": account}
        body = {**body, "roleRef": role, "subjects": [subject]}
    await controlplane.admin.create(path, {**body, "metadata": meta})
    return f"{path}/{meta['name']}"


async def until_later_than(created: Json) -> None:
    """Wait for the next second: objects of one second are told apart by their names."""
    while timestamp(datetime.now(UTC)) <= created["metadata"]["creationTimestamp"]:
        await asyncio.sleep(0.05)


async def test_a_secret_that_may_not_be_read_holds_up_only_its_own_object(
    cluster: Cluster,
    namespace: str,
    recorder: Recorder,
    witness: Witness,
    installed: Path,
    mcp_servers: McpServers,
    tmp_path: Path,
) -> None:
    admin, log = cluster.controlplane.admin, tmp_path / "operator.log"
    inside = [body for body in rbac.for_namespace(ALL, namespace) if body["metadata"].get("namespace") == namespace]
    rights = [*without_secrets(rbac.for_cluster(ALL)), *inside]
    async with fresh_namespace(cluster) as closed, recording_all(cluster, closed, witness) as elsewhere:
        elder = await orchestrators.create(admin, closed, "elder")
        await mcps.create(admin, closed)
        async with (
            account(cluster.controlplane, "narrow", rights) as narrow,
            running_operator(narrow, mcp_servers.port, log),
        ):
            await until_later_than(elder)
            await orchestrators.create(admin, namespace, "younger")
            found = await orchestrators.until_ready(recorder, namespace, "younger")
            stuck = await elsewhere.wait_for(ORCHESTRATOR.resource, closed, "elder", says("Forbidden"))
            await mcps.until_ready(elsewhere, closed)
    assert f"whether {closed}/elder has the same token is not known" in condition(found, "Ready")["message"]
    assert 'cannot get resource "secrets"' in condition(stuck, "Ready")["message"]


async def test_with_the_role_of_one_namespace_it_says_where_it_may_not_look(
    cluster: Cluster, namespace: str, recorder: Recorder, installed: Path, mcp_servers: McpServers, tmp_path: Path
) -> None:
    admin, log = cluster.controlplane.admin, tmp_path / "operator.log"
    rights, policy = rbac.for_namespace(ALL, namespace), f'{{"namespace": "{namespace}"}}'
    elsewhere = {"enabled": True, "serviceDiscovery": {"enabled": True, "namespace": "default"}}
    async with (
        account(cluster.controlplane, "local", rights) as local,
        running_operator(local, mcp_servers.port, log, WATCH_NAMESPACE=namespace, POLICY=policy),
    ):
        await orchestrators.create(admin, namespace, a2a=elsewhere)
        await gateways.create(admin, namespace, mcp=elsewhere)
        await agents.create(admin, namespace)
        bot = await recorder.wait_for(ORCHESTRATOR.resource, namespace, "helper", says("Forbidden"))
        edge = await recorder.wait_for(
            GATEWAY.resource, namespace, "edge", lambda item: condition(item, "Available").get("status") == "True"
        )
        await agents.until_ready(recorder, namespace)
    assert condition(bot, "Discovered")["status"] == "False"
    assert condition(edge, "MCPsDiscovered")["reason"] == "Forbidden"
    assert f"serves only the namespace {namespace}" in condition(edge, "MCPsDiscovered")["message"]
