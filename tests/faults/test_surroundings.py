"""The namespace goes, the definition goes and comes back, and the operator dies at random moments."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from modelyard.core.resources import DEPLOYMENT, SERVICE, Key
from modelyard.kinds.mcp import MCP
from modelyard.manifests.crd import crd
from modelyard.runtime.manager import Settings
from tests.support.mcps import create, ready, until_ready, writes

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.operators import OperatorProcess
    from tests.support.recorder import Recorder

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = 20
KILLS = 5
AT_WORK = Settings(lease=Key("", ""), identity="").workers


async def test_a_namespace_can_be_deleted_under_its_hands(
    cluster: Cluster, operator: OperatorProcess, namespace: str
) -> None:
    admin = cluster.controlplane.admin
    for number in range(5):
        await create(admin, namespace, f"tools-{number}")
    await admin.delete(f"/api/v1/namespaces/{namespace}")
    async with asyncio.timeout(60):
        while await admin.answers(f"/api/v1/namespaces/{namespace}"):
            await asyncio.sleep(0.2)
    assert (await operator.readyz())[0] == 200


async def test_a_definition_that_goes_and_comes_back_is_served_again(
    cluster: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    admin = cluster.controlplane.admin
    name = f"{MCP.resource.plural}.{MCP.resource.group}"
    await create(admin, namespace)
    await admin.delete(f"{CRDS}/{name}")
    await operator.until_it_says(name, "is its CRD installed?")
    await admin.ensure(CRDS, crd(MCP))
    await _until_served(admin)
    await operator.until_ready("leader")
    await create(admin, namespace, "later")
    async with asyncio.timeout(60):
        while not ready(await admin.get(MCP.resource.path(namespace, "later"))):
            await asyncio.sleep(0.1)


async def test_killed_at_random_moments_it_ends_as_if_it_had_not_been(
    cluster: Cluster, namespace: str, recorder: Recorder, operator: OperatorProcess
) -> None:
    chance = random.Random(7)
    for number in range(OBJECTS):
        await create(cluster.controlplane.admin, namespace, f"tools-{number}")
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(0.0, 0.4))
        operator.kill()
        await operator.died()
        await operator.start()
        await operator.until_ready("leader")
    for number in range(OBJECTS):
        await until_ready(recorder, namespace, f"tools-{number}")
    assert set(recorder.created(DEPLOYMENT).values()) == set(recorder.created(SERVICE).values()) == {1}
    assert not recorder.deleted(DEPLOYMENT)
    counted = writes(cluster.controlplane.audit_log, namespace)
    # Each of its workers may have had a request under way when it was killed.
    assert counted["create deployments"] + counted["create services"] <= 2 * OBJECTS + AT_WORK * KILLS


async def _until_served(admin: RawClient) -> None:
    async with asyncio.timeout(60):
        while not await admin.answers(MCP.resource.path()):
            await asyncio.sleep(0.1)
