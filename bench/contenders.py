"""The two programs that are measured: the operator, and the floor."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp

from bench.cluster import ACCOUNT
from bench.program import Program
from modelyard.local.ports import free_ports
from tests.support.mcpserver import CALLS_PATH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.cluster import Cluster

AT_WORK = ("serving", "leading")
"""What the operator writes when its caches are filled and when it holds the Lease."""

_SCRAPE_SECONDS = 5.0


class Operator(Program):
    """The operator under its own service account. Every Service is found at one local port."""

    def __init__(self, cluster: Cluster, mcp_port: int) -> None:
        health, self._metrics = free_ports(2)
        self._servers = mcp_port
        env = {
            "KUBECONFIG": str(cluster.kubeconfig),
            "LEASE_NAMESPACE": ACCOUNT[0],
            "IDENTITY": "bench",
            "HEALTH_PORT": str(health),
            "METRICS_PORT": str(self._metrics),
            "MCP_PORT": str(mcp_port),
        }
        super().__init__(["tests.support.operator_main"], cluster.log("operator"), env)

    async def metric(self, name: str) -> float:
        """Return a metric, summed over its labels."""
        lines = (await _page(self._metrics, "/metrics")).splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))

    async def questions(self) -> int:
        """Return how many requests its checks have made so far, as the servers say."""
        return int(await _page(self._servers, CALLS_PATH))


async def _page(port: int, path: str) -> str:
    limit = aiohttp.ClientTimeout(total=_SCRAPE_SECONDS)
    async with aiohttp.ClientSession(timeout=limit) as session, session.get(f"http://127.0.0.1:{port}{path}") as page:
        return await page.text()


@asynccontextmanager
async def operator(cluster: Cluster) -> AsyncIterator[Operator]:
    """Run the operator and a real MCP server until the block ends."""
    [port] = free_ports(1)
    servers = Program(["tests.support.mcpserver", "--port", str(port)], cluster.log("servers"), {})
    # It writes its port when it listens there.
    async with servers.running(str(port)), operator_at(cluster, port) as measured:
        yield measured


@asynccontextmanager
async def operator_at(cluster: Cluster, port: int) -> AsyncIterator[Operator]:
    """Run the operator until the block ends; it finds every Service at this port."""
    measured = Operator(cluster, port)
    async with measured.running(*AT_WORK):
        yield measured


@asynccontextmanager
async def floor(cluster: Cluster, mix: str) -> AsyncIterator[Program]:
    """Run the floor for a mix until the block ends."""
    measured = Program(["bench.floor", mix], cluster.log("floor"), {"KUBECONFIG": str(cluster.kubeconfig)})
    async with measured.running("watching"):
        yield measured
