"""A fleet at rest: how regularly hosts are probed while some of them hang, what it costs, and that nothing is written.

The daemons answer from this process, each at a port of its own. There is nothing to hold it against but its own goals.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from bench import life
from bench.cluster import fresh_cluster
from bench.contenders import operator
from bench.converge import PATIENCE_SECONDS
from bench.report import Row
from bench.witness import Tally, longest_pause, watching
from modelyard.core.hosts import HostAddress, HostProbe
from modelyard.kinds.inferencehost import INFERENCE_HOST
from modelyard.local.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.core.objects import Stored

_HOSTS: Final = 200
_HANGING: Final = 20
_LATEST: Final = HostProbe(HostAddress("default", "")).every * 1.1 + 1.0
"""The interval of probes, with its jitter and a second for everything else."""
_BODY: Final = {"models": [], "host": {"memoryTotalBytes": 1 << 34, "memoryFreeBytes": 1 << 34, "version": "1"}}


class Daemons:
    """All hosts: the ports at which they listen, and when each was probed."""

    def __init__(self) -> None:
        self.ports = free_ports(_HOSTS)
        self.probed: dict[int, list[float]] = {port: [] for port in self.ports}
        self._hanging = frozenset(self.ports[:_HANGING])

    def longest_pause(self, since: float) -> float:
        """Return the longest time between two probes of a host that answers, in seconds."""
        return longest_pause((self.probed[port] for port in self.ports if port not in self._hanging), since)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Answer while the block lasts."""
        application = web.Application()
        application.add_routes([web.get("/healthz", self._health), web.get("/admin/models", self._list)])
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        for port in self.ports:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def _health(self, request: web.Request) -> web.Response:
        assert request.transport
        port = request.transport.get_extra_info("sockname")[1]
        self.probed[port].append(time.perf_counter())
        if port in self._hanging:
            await asyncio.Event().wait()
        return web.Response(text="ok")

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response(_BODY)


async def fleet(rest: float) -> list[Row]:
    """Measure hosts at rest for so many seconds."""
    daemons = Daemons()
    async with daemons.serving(), fresh_cluster(nodes=False) as cluster, operator(cluster) as contender:
        start, tally = time.perf_counter(), Tally(_is_known, _HOSTS)
        async with watching(cluster.client, INFERENCE_HOST.resource, tally):
            for number, port in enumerate(daemons.ports):
                await cluster.client.create(INFERENCE_HOST.resource, _manifest(number, port))
            await tally.enough(PATIENCE_SECONDS, contender.check)
        # The last host that is found silent is told in an event, which follows its status.
        await life.steady_at(contender, 1)
        since = time.perf_counter()
        quiet = await life.rest(cluster, contender, rest)
    return [
        Row(f"{_HOSTS} hosts known, {_HANGING} of them silent", tally.reached - start, "s"),
        Row("longest pause between probes of a host", daemons.longest_pause(since), "s", goal=_LATEST),
        Row(f"writes in {rest:.0f} s at rest", sum(quiet.writes.values()), goal=0.0),
        Row("CPU at rest, probes going on", quiet.cpu_percent, "%"),
    ]


def _is_known(host: Stored) -> bool:
    told = {entry["type"]: entry["status"] for entry in host.status.get("conditions", ())}
    return told.get("Reachable") in ("True", "False")


def _manifest(number: int, port: int) -> dict[str, Any]:
    spec = {"endpoint": f"http://localhost:{port}", "address": f"198.41.{number // 200}.{number % 200 + 1}"}
    meta = {"namespace": "default", "name": f"host-{number}"}
    return {"apiVersion": INFERENCE_HOST.resource.api_version, "kind": "InferenceHost", "metadata": meta, "spec": spec}
