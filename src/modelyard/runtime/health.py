"""The HTTP endpoints for the kubelet and Prometheus: `/healthz`, `/readyz` and `/metrics`. `manager` serves them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from prometheus_client import CollectorRegistry


class Health:
    """The web servers of the operator: one for probes, one for metrics."""

    def __init__(self, role: Callable[[], str], troubles: Callable[[], list[str]], registry: CollectorRegistry) -> None:
        self._role, self._troubles, self._registry = role, troubles, registry

    async def healthz(self, _: web.Request) -> web.Response:
        """Answer 200 as long as the event loop runs."""
        return web.Response(text="ok\n")

    async def readyz(self, _: web.Request) -> web.Response:
        """Answer with the role of this replica: 200 if all caches are synced, else 503 and what is wrong."""
        troubles = self._troubles()
        lines = [self._role(), *troubles]
        return web.Response(text="\n".join(lines) + "\n", status=503 if troubles else 200)

    async def metrics(self, _: web.Request) -> web.Response:
        """Answer with all metrics."""
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    @asynccontextmanager
    async def serve(self, host: str | None, health_port: int, metrics_port: int) -> AsyncIterator[None]:
        """Serve until the block ends. Port 0 switches a server off; host None means all addresses."""
        probes, metrics = web.Application(), web.Application()
        probes.router.add_get("/healthz", self.healthz)
        probes.router.add_get("/readyz", self.readyz)
        metrics.router.add_get("/metrics", self.metrics)
        runners = []
        try:
            for app, port in ((probes, health_port), (metrics, metrics_port)):
                if port:
                    runner = web.AppRunner(app, access_log=None)
                    runners.append(runner)
                    await runner.setup()
                    await web.TCPSite(runner, host, port).start()
            yield
        finally:
            for runner in runners:
                await runner.cleanup()
