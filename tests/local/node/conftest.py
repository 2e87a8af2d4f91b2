"""A real control plane without any node, for tests that bring their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.transport import HttpTransport
from modelyard.local.controlplane import ControlPlane
from tests.local.node.yard import Yard, yard_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster


@pytest.fixture(scope="package")
async def plane(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """A control plane that no simulated node disturbs."""
    controlplane = ControlPlane(tmp_path_factory.mktemp("plane"), assets, durable=False)
    await controlplane.start()
    yield controlplane
    await controlplane.stop()


@pytest.fixture(scope="package")
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    """A client of that control plane, as its administrator."""
    opened = Client(HttpTransport(from_kubeconfig([plane.kubeconfig])))
    yield opened
    await opened.close()


@pytest.fixture
async def yard(cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[Yard]:
    """A node of the shared cluster that runs pods as processes of this one."""
    async with yard_of(cluster, namespace, tmp_path / "state") as running:
        yield running
