"""The figures of `modelyard get -o wide`, through the proxy of a real API server to a server with metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from modelyard.cluster.figures import cells
from modelyard.cluster.get import TITLES
from modelyard.core.resources import POD
from modelyard.engines.measured import Measured
from tests.cli.conftest import TEAM, store
from tests.cli.running import run
from tests.support.own_network import own_address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster

LABELS = {
    "app.kubernetes.io/instance": "chat",
    "app.kubernetes.io/managed-by": "modelyard",
    "modelyard.dev/kind": "inferenceservice",
}


@pytest.fixture(scope="module")
async def measured(cluster: Cluster, scene: Path) -> AsyncIterator[Path]:
    """The kubeconfig of a cluster in which a pod of `chat` has metrics."""
    admin, tokens = cluster.controlplane.admin, iter(range(0, 10_000, 100))

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=f"vllm:num_requests_running 3\nvllm:generation_tokens_total {next(tokens)}\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", page)])
    runner = web.AppRunner(app)
    await runner.setup()
    address = own_address()
    assert address, "without one, these tests are run by test_in_own_network"
    await web.TCPSite(runner, address, 0).start()
    ports = [{"name": "http", "containerPort": runner.addresses[0][1]}]
    pod = {
        "kind": "Pod",
        "metadata": {"name": "chat-measured", "labels": LABELS},
        # No scheduler of this name runs, so the simulated node leaves the pod as it is.
        "spec": {
            "schedulerName": "none",
            "containers": [{"name": "vllm", "image": "example.com/vllm:1", "ports": ports}],
        },
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    await store(admin, TEAM, pod)
    try:
        yield scene
    finally:
        await admin.delete(f"{POD.path(TEAM, 'chat-measured')}?gracePeriodSeconds=0")
        await runner.cleanup()


async def test_wide_shows_the_figures_of_what_is_served(measured: Path) -> None:
    title, line = (await run("get", "isvc", "chat", "-n", "team", "-o", "wide", kubeconfig=measured)).out.splitlines()
    first = title.split().index(TITLES[0])
    assert title.split()[first:] == [*TITLES, "AGE", "MESSAGE"]
    tokens, delay, running, waiting, cache = line.split()[first : first + 5]
    # A hundred tokens between two readings, which are a second apart or more.
    assert 0 < float(tokens) <= 100
    assert (delay, running, waiting, cache) == ("-", "3", "-", "-")


async def test_without_figures_there_are_no_columns_for_them(measured: Path) -> None:
    title, *_ = (await run("get", "models", "-n", "team", "-o", "wide", kubeconfig=measured)).out.splitlines()
    assert not set(TITLES) & set(title.split())


def test_cells_are_short_and_empty_where_nothing_is_told() -> None:
    told = Measured(41.25, 3.0, 0.0, 0.256, first_tokens=4.0, first_token_seconds=1.0)
    assert cells(told) == ("41.2", "0.25s", "3", "0", "26%")
    assert cells(Measured()) == ("", "", "", "", "")
