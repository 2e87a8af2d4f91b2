"""What the end-to-end tests share: a machine with two services of two replicas each, and one with a canary."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e import zerfoo_server
from tests.e2e.yards import Json, Yard, manifest, model, running_yard, service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


ROOT = Path(__file__).parents[2]
CANARY = ROOT / "examples" / "canary.yaml"
GATEWAY_PROGRAM = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.gatewayserver import main
main()
"""


@pytest.fixture(scope="session", autouse=True)
def programs(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The control plane is built, which `modelyard up` finds by itself, and a small gateway is on the PATH."""
    os.environ.setdefault("KUBEBUILDER_ASSETS", str(assets))
    program = tmp_path_factory.mktemp("programs") / "inference-gateway"
    program.write_text(GATEWAY_PROGRAM)
    program.chmod(0o755)
    os.environ["PATH"] = f"{program.parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(scope="package")
async def yard(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    """Two services, yard and yard-green, with two replicas each; things of other kinds, and a service elsewhere."""
    folder = tmp_path_factory.mktemp("yard")
    file = manifest(
        folder / "both.yaml",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}, "data": {"a": "b"}},
        in_team(model("yard")),
        in_team(service("yard", replicas=0)),
        model("yard"),
        model("yard-green"),
        service("yard", replicas=2),
        service("yard-green", replicas=2),
    )
    async with running_yard(folder / "state", "-f", file) as running:
        yield running


@pytest.fixture(scope="package")
async def zerfoo_yard(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    """A machine with the example of a canary, on which a small server stands in for Zerfoo's image."""
    folder = tmp_path_factory.mktemp("zerfoo")
    rule = {
        "image": "zerfoo/zerfoo",
        "program": [sys.executable, zerfoo_server.__file__],
        "hostFlag": "--host",
        "portFlag": "--port",
    }
    images = folder / "images.yaml"
    images.write_text(yaml.safe_dump({"images": [rule]}))
    async with running_yard(folder / "state", "-f", CANARY, "--images", images) as running:
        yield running


def in_team(body: Json) -> Json:
    return {**body, "metadata": {**body["metadata"], "namespace": "team"}}
