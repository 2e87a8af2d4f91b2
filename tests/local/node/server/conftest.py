"""The kubelet's server, and a node in the API whose server it is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from modelyard.local.node.node_status import FEATURES
from modelyard.local.node.server.kubelet_server import KubeletServer
from tests.local.node.server.kubelet import Node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.controlplane import ControlPlane


@pytest.fixture
async def node(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(plane, tmp_path, f"node-{uuid4().hex[:8]}", pods={}, running=set())
    async with KubeletServer(tmp_path, node, plane.node_trust()).serving() as node.port:
        await plane.admin.create("/api/v1/nodes", {"metadata": {"name": node.name}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "declaredFeatures": list(FEATURES),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": node.port}},
        }
        await plane.admin.patch(f"/api/v1/nodes/{node.name}/status", {"status": status})
        yield node
    await plane.admin.delete(f"/api/v1/nodes/{node.name}")
