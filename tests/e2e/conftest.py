"""What the end-to-end tests share: one machine that is up with two services of two replicas each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.e2e.yards import Yard, manifest, model, running_yard, service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture(scope="session", autouse=True)
def programs(assets: Path) -> None:
    """The control plane is built; `modelyard up` finds it by itself."""
    os.environ.setdefault("KUBEBUILDER_ASSETS", str(assets))


@pytest.fixture(scope="session")
async def yard(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    """Two services, yard and yard-green, with two replicas each."""
    folder = tmp_path_factory.mktemp("yard")
    file = manifest(
        folder / "both.yaml",
        model("yard"),
        model("yard-green"),
        service("yard", replicas=2),
        service("yard-green", replicas=2),
    )
    async with running_yard(folder / "state", "-f", file) as running:
        yield running
