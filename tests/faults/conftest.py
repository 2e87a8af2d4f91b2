"""An operator that reaches the API server through a proxy in which anything can go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import watched_resources
from tests.support import beacons, fleets
from tests.support.accounts import until_children_are_taken
from tests.support.faultproxy import fault_proxy
from tests.support.operators import OperatorProcess
from tests.support.recorder import recording
from tests.support.subjects import TOY
from tests.toy import BEACON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from tests.support.faultproxy import FaultProxy
    from tests.support.mcpserver import McpServers
    from tests.support.recorder import Recorder, Witness


@pytest.fixture
async def proxy(cluster: Cluster, tmp_path: Path) -> AsyncIterator[FaultProxy]:
    """The proxy, with no rules yet."""
    async with fault_proxy(cluster.controlplane, tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
async def toys(cluster: Cluster, installed: Path) -> AsyncIterator[None]:
    """The toy kind is installed, and the hosts of the toys and of the fleet serve."""
    await beacons.install(cluster.controlplane.admin)
    await until_children_are_taken(installed, [BEACON])
    async with beacons.HOST.serving(), fleets.STUDIO.serving():
        yield


@pytest.fixture
async def recorder(
    cluster: Cluster, installed: Path, toys: None, witness: Witness, namespace: str
) -> AsyncIterator[Recorder]:
    """The history of the namespace, that of toys included; what must always hold is checked at the end."""
    watched = dict.fromkeys((*watched_resources(), *(resource for resource, _ in TOY.children), TOY.resource))
    async with recording(cluster.controlplane.admin, watched, namespace, witness) as running:
        yield running
    running.assert_invariants()


@pytest.fixture
async def proxied(
    request: pytest.FixtureRequest, proxy: FaultProxy, installed: Path, mcp_servers: McpServers, tmp_path: Path
) -> AsyncIterator[OperatorProcess]:
    """An operator behind the proxy, not started yet, for the subject of the test if it has one.

    It must come through without a bug of ours.
    """
    operator = OperatorProcess(proxy.kubeconfig_for(installed), mcp_servers.port, tmp_path / "operator.log")
    if "subject" in request.fixturenames:
        operator.main = request.getfixturevalue("subject").operator
    yield operator
    proxy.disarm()
    await operator.stop()
    operator.assert_no_bug()
