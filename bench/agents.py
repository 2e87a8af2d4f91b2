"""Agents at rest: how regularly cards are read while some agents hang, what it costs, and that nothing is written.

All agents answer from this process at one port, told apart by the names of their Services. One that hangs takes the
request and never answers. There is nothing to hold it against but its own goals.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from bench import life
from bench.cluster import fresh_cluster
from bench.contenders import operator_at
from bench.converge import PATIENCE_SECONDS, watching_load
from bench.objects import AGENTS, NAMESPACE, Load, create_all, key
from bench.report import Row
from bench.witness import Tally, longest_pause
from modelyard.core.checks.agent_card import AgentCard
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.names import service_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.core.objects import Stored

AGENTS_AT_REST: Final = 1000
_HANGING_OF: Final = 10
"""One agent in so many hangs."""
_EVERY: Final = AgentCard(ServiceAddress("", "", 0), template="").every
_LATEST: Final = _EVERY * 1.1 + 1.0
"""The interval of reads, with its jitter and a second for everything else."""


class Cards:
    """All agents: which of them hang, and when the card of each was asked for."""

    def __init__(self, count: int) -> None:
        self.hosts = [service_host(key(AGENTS, number).name, NAMESPACE) for number in range(count)]
        self.asked: dict[str, list[float]] = {host: [] for host in self.hosts}
        self.hanging = frozenset(self.hosts[::_HANGING_OF])

    def longest_pause(self, since: float) -> float:
        """Return the longest time between two reads of an agent that answers, in seconds."""
        return longest_pause((self.asked[host] for host in self.hosts if host not in self.hanging), since)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """Answer while the block lasts, at the port that is returned."""
        runner = web.ServerRunner(web.Server(self._answer, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        host = request.host.partition(":")[0]
        self.asked[host].append(time.perf_counter())
        if host in self.hanging:
            await asyncio.Event().wait()
        return web.json_response(_card(request.host))


async def agents(count: int, rest: float) -> list[Row]:
    """Measure so many agents at rest, for so many seconds and at least two rounds of reads."""
    cards, load, seconds = Cards(count), Load(((AGENTS, count),)), max(rest, 2 * _LATEST)
    async with (
        cards.serving() as port,
        fresh_cluster(nodes=True) as cluster,
        operator_at(cluster, port) as contender,
    ):
        start, tally = time.perf_counter(), Tally(_is_known, count)
        async with watching_load(cluster, load, tally):
            await create_all(cluster.client, load)
            await tally.enough(PATIENCE_SECONDS, contender.check)
        # The event about the last silent agent follows its status.
        await life.steady_at(contender, 1)
        since = time.perf_counter()
        quiet = await life.rest(cluster, contender, seconds)
        print(f"rest: {quiet}", file=sys.stderr, flush=True)
    return [
        Row(f"{count} agents known, {len(cards.hanging)} of them silent", tally.reached - start, "s"),
        Row("longest pause between reads of a card", cards.longest_pause(since), "s", goal=_LATEST),
        Row(f"writes in {seconds:.0f} s at rest", sum(quiet.writes.values()), goal=0.0),
        Row("CPU at rest, reads going on", quiet.cpu_percent, "%"),
    ]


def _is_known(agent: Stored) -> bool:
    told = {entry["type"]: entry["status"] for entry in agent.status.get("conditions", ())}
    return told.get("CardFetched") in ("True", "False")


def _card(host: str) -> dict[str, Any]:
    skills = [{"id": "echo", "name": "echo", "description": "says it again", "tags": []}]
    about = {"name": "tiny", "description": "an agent of a benchmark", "version": "1.0", "url": f"http://{host}/a2a"}
    return {**about, "capabilities": {"streaming": True}, "skills": skills}
