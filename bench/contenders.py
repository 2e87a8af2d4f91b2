"""The two programs that are measured: the operator, and the floor."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp

from bench.cluster import ACCOUNT
from bench.program import Program
from modelyard.local.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.cluster import Cluster
    from bench.objects import Subject

AT_WORK = ("serving", "leading")
"""What the operator writes when its caches are filled and when it holds the Lease."""

_SCRAPE_SECONDS = 5.0


class Operator(Program):
    """The operator under its own service account. Every Service is found at one local MCP server."""

    def __init__(self, cluster: Cluster, mcp_port: int) -> None:
        health, self._metrics = free_ports(2)
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
        url = f"http://127.0.0.1:{self._metrics}/metrics"
        limit = aiohttp.ClientTimeout(total=_SCRAPE_SECONDS)
        async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as answer:
            lines = (await answer.text()).splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))


@asynccontextmanager
async def operator(cluster: Cluster) -> AsyncIterator[Operator]:
    """Run the operator and a real MCP server until the block ends."""
    [port] = free_ports(1)
    servers = Program(["tests.support.mcpserver", "--port", str(port)], cluster.log("servers"), {})
    measured = Operator(cluster, port)
    # It writes its port when it listens there.
    async with servers.running(str(port)), measured.running(*AT_WORK):
        yield measured


@asynccontextmanager
async def floor(cluster: Cluster, subject: Subject) -> AsyncIterator[Program]:
    """Run the floor until the block ends."""
    measured = Program(["bench.floor", subject.name], cluster.log("floor"), {"KUBECONFIG": str(cluster.kubeconfig)})
    async with measured.running("watching"):
        yield measured
