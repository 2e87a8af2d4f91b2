"""An operator that reaches the API server through a proxy in which anything can go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.faultproxy import fault_proxy
from tests.support.operators import OperatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from tests.support.faultproxy import FaultProxy
    from tests.support.mcpserver import McpServers


@pytest.fixture
async def proxy(cluster: Cluster, tmp_path: Path) -> AsyncIterator[FaultProxy]:
    """The proxy, with no rules yet."""
    async with fault_proxy(cluster.controlplane, tmp_path) as running:
        yield running


@pytest.fixture
async def proxied(
    proxy: FaultProxy, installed: Path, mcp_servers: McpServers, tmp_path: Path
) -> AsyncIterator[OperatorProcess]:
    """An operator behind the proxy, not started yet. It must come through without a bug of ours."""
    operator = OperatorProcess(proxy.kubeconfig_for(installed), mcp_servers.port, tmp_path / "operator.log")
    yield operator
    proxy.disarm()
    await operator.stop()
    operator.assert_no_bug()
