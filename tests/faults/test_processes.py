"""Restarts, and leaders that come and go."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from modelyard.core.resources import DEPLOYMENT
from modelyard.kinds.mcp import MCP
from modelyard.runtime.lease import LeaseTiming
from tests.support import services
from tests.support.mcps import create, edit, expect_writes, until_ready, writes
from tests.support.operators import OperatorProcess
from tests.support.subjects import CANARY, MODEL_DEPLOYMENT, ZERFOO

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from tests.support.mcpserver import McpServers
    from tests.support.recorder import Recorder

FIVE_WRITES = {"create deployments": 1, "create services": 1, "patch mcps/status": 3}


@pytest.fixture
async def standby(
    operator: OperatorProcess, installed: Path, mcp_servers: McpServers, tmp_path: Path
) -> AsyncIterator[OperatorProcess]:
    """A second replica beside the leader."""
    second = OperatorProcess(installed, mcp_servers.port, tmp_path / "second.log", identity="second")
    await second.start()
    await second.until_ready("standby")
    yield second
    await second.stop()
    second.assert_no_bug()


async def test_a_restart_writes_nothing(
    cluster: Cluster, namespace: str, recorder: Recorder, operator: OperatorProcess, mcp_servers: McpServers
) -> None:
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)
    assert await operator.stop() == 0
    asked = mcp_servers.calls[f"tools-service.{namespace}", "initialize"]
    await operator.start()
    await operator.until_ready("leader")
    async with asyncio.timeout(60):
        while mcp_servers.calls[f"tools-service.{namespace}", "initialize"] == asked:
            await asyncio.sleep(0.05)
    await create(cluster.controlplane.admin, namespace, "later")
    await until_ready(recorder, namespace, "later")
    twice = {what: 2 * number for what, number in FIVE_WRITES.items()}
    await expect_writes(cluster.controlplane.audit_log, namespace, twice)


async def test_a_restart_writes_nothing_for_a_model_and_its_service_either(
    cluster: Cluster, namespace: str, recorder: Recorder, operator: OperatorProcess
) -> None:
    admin = cluster.controlplane.admin
    await services.create_pair(admin, namespace)
    await services.until_service(recorder, namespace)
    assert await operator.stop() == 0
    await operator.start()
    await operator.until_ready("leader")
    # What is new comes after what is there already.
    await services.create_model(admin, namespace, "second")
    await services.create_service(admin, namespace, "later", modelRef="second")
    await services.until_service(recorder, namespace, "later")
    twice = {what: 2 * number for what, number in services.FIVE_WRITES.items()}
    await expect_writes(cluster.controlplane.audit_log, namespace, {**twice, "create persistentvolumeclaims": 1})


async def test_a_restart_writes_nothing_for_canaries_and_model_deployments_either(
    cluster: Cluster, namespace: str, recorder: Recorder, operator: OperatorProcess
) -> None:
    admin, log = cluster.controlplane.admin, cluster.controlplane.audit_log
    for subject in (ZERFOO, CANARY, MODEL_DEPLOYMENT):
        await subject.create(admin, namespace)
        await subject.until_ready(recorder, namespace)
    assert await operator.stop() == 0
    before = writes(log, namespace)
    await operator.start()
    await operator.until_ready("leader")
    # What is new comes after what is there already.
    await create(admin, namespace)
    await until_ready(recorder, namespace)
    await expect_writes(log, namespace, before + Counter(FIVE_WRITES))


async def test_what_changed_while_it_was_down_is_caught_up(
    cluster: Cluster, namespace: str, recorder: Recorder, operator: OperatorProcess
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_ready(recorder, namespace)
    operator.kill()
    await operator.died()
    edited = await edit(admin, namespace, replicas=2)
    await create(admin, namespace, "new")
    await create(admin, namespace, "gone")
    await admin.delete(MCP.resource.path(namespace, "gone"))
    await operator.start()
    await until_ready(recorder, namespace, after=edited)
    await until_ready(recorder, namespace, "new")


async def test_a_leader_that_leaves_is_followed_at_once(
    cluster: Cluster, namespace: str, recorder: Recorder, operator: OperatorProcess, standby: OperatorProcess
) -> None:
    assert await operator.stop() == 0
    await create(cluster.controlplane.admin, namespace)
    await _until_looked_at(recorder, namespace, LeaseTiming().lease_duration - 5.0)
    await until_ready(recorder, namespace)
    await expect_writes(cluster.controlplane.audit_log, namespace, FIVE_WRITES)


async def test_a_leader_that_is_killed_is_followed_when_its_lease_runs_out(
    cluster: Cluster, namespace: str, recorder: Recorder, operator: OperatorProcess, standby: OperatorProcess
) -> None:
    operator.kill()
    await operator.died()
    await create(cluster.controlplane.admin, namespace)
    await _until_looked_at(recorder, namespace, LeaseTiming().lease_duration + 30.0)
    await until_ready(recorder, namespace)
    await expect_writes(cluster.controlplane.audit_log, namespace, FIVE_WRITES)


async def test_a_leader_that_was_frozen_past_its_lease_does_not_come_back_as_one(
    cluster: Cluster, namespace: str, recorder: Recorder, operator: OperatorProcess, standby: OperatorProcess
) -> None:
    admin = cluster.controlplane.admin
    operator.freeze()
    await create(admin, namespace)
    await until_ready(recorder, namespace)
    await standby.until_ready("leader")
    operator.thaw()
    await operator.until_ready("standby")
    edited = await edit(admin, namespace, replicas=2)
    await until_ready(recorder, namespace, after=edited)
    assert recorder.created(DEPLOYMENT) == {"tools": 1}


async def _until_looked_at(recorder: Recorder, namespace: str, seconds: float) -> None:
    await recorder.wait_for(MCP.resource, namespace, "tools", lambda item: bool((item or {}).get("status")), seconds)
