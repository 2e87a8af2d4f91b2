"""What the tests of whole lives share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.transport import HttpTransport
from tests.support.operators import OperatorProcess, running_operator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from tests.support.mcpserver import McpServers


@pytest.fixture(scope="module")
async def standing_operator(
    installed: Path, mcp_servers: McpServers, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[OperatorProcess]:
    """One operator for all tests of a file, under its own role, leading. To start one for each would take a minute."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    async with running_operator(installed, mcp_servers.port, log) as running:
        yield running


@pytest.fixture(scope="session")
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    """The operator's own client, with the rights of an administrator."""
    connected = Client(HttpTransport(from_kubeconfig([cluster.kubeconfig])))
    yield connected
    await connected.close()
