"""What comes after Ready: rest, edits, and a restart of the operator."""

from __future__ import annotations

import asyncio
import time
from statistics import quantiles
from typing import TYPE_CHECKING

from msgspec import Struct

from bench import audit
from bench.contenders import AT_WORK
from bench.converge import PATIENCE_SECONDS, is_ready, watching_load, written
from bench.objects import key
from bench.process import cpu_seconds
from bench.witness import Tally, watching
from modelyard.core.resources import DEPLOYMENT, Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.cluster import Cluster
    from bench.contenders import Operator
    from bench.objects import Load
    from modelyard.core.objects import Stored

EDITS = 100

_EDIT_SECONDS = 30.0
_SCRAPE_EVERY = 0.1
_QUIET_SECONDS = 2.0
_STEADY_SECONDS = 120.0


class Rest(Struct, frozen=True):
    """A while in which nobody changed anything."""

    seconds: float
    writes: dict[str, int]
    cpu_percent: float


class Edits(Struct, frozen=True):
    """How long it took from the answer to a user's edit until the changed Deployment was seen."""

    p50: float
    p95: float
    worst: float


class Restart(Struct, frozen=True):
    """An orderly stop and a new start of the operator."""

    synced: float
    """Seconds from the start of the process until it knows everything."""
    steady: float
    """Seconds from then until it has looked at everything and nothing is left to do."""
    writes: dict[str, int]


async def rest(cluster: Cluster, operator: Operator, seconds: float) -> Rest:
    """Let everything alone for a while. Writes count from before the last echoes of Ready have died away."""
    since = audit.position(cluster.controlplane.audit_log)
    await steady_at(operator, 1)
    used, start = cpu_seconds(operator.pid), time.perf_counter()
    await asyncio.sleep(seconds)
    percent = 100 * (cpu_seconds(operator.pid) - used) / (time.perf_counter() - start)
    return Rest(seconds, dict(written(cluster, since)), percent)


class _Lookout:
    """Notes when an object is first seen with a mark in its spec, and as wanted otherwise."""

    def __init__(self, holds: Callable[[Stored], bool]) -> None:
        self._holds = holds
        self._key: Key | None = None
        self._mark = b""
        self._seen = asyncio.Event()
        self.at = 0.0

    def expect(self, wanted: Key, mark: str) -> None:
        self._key, self._mark = wanted, mark.encode()
        self._seen.clear()

    def __call__(self, item: Stored) -> None:
        if item.meta.key != self._key or self._seen.is_set():
            return
        if self._mark in item.parts["spec"] and self._holds(item):
            self.at = time.perf_counter()
            self._seen.set()

    async def seen(self) -> None:
        async with asyncio.timeout(_EDIT_SECONDS):
            await self._seen.wait()


async def edits(cluster: Cluster, load: Load, *, in_peace: bool) -> Edits:
    """Edit one object after another.

    In peace, each edit waits until the object before is Ready again. Otherwise it follows at once, while the cluster
    is still busy replacing the pods of the edits before.
    """
    changed, ready = _Lookout(lambda _: True), _Lookout(is_ready)
    # The first change of a child costs more than later ones, so nobody is edited in both ways.
    first, delays, places = 0 if in_peace else EDITS, [], load.places
    async with watching(cluster.client, DEPLOYMENT, changed), watching_load(cluster, load, ready):
        for number in range(EDITS):
            subject, place = places[(first + number) % len(places)]
            where, mark = key(subject, place), f"--edit={number}-{in_peace}"
            changed.expect(Key(where.namespace, where.name + subject.suffix), mark)
            ready.expect(where, mark)
            await cluster.client.merge_patch(subject.kind.resource, where, subject.edit(mark))
            answered = time.perf_counter()
            await changed.seen()
            delays.append(max(0.0, changed.at - answered))
            if in_peace:
                await ready.seen()
    return Edits(p50=quantiles(delays, n=20)[9], p95=quantiles(delays, n=20)[18], worst=max(delays))


async def all_ready(cluster: Cluster, operator: Operator, load: Load) -> None:
    """Wait until every object is Ready, for what it was last told."""
    tally = Tally(is_ready, load.total)
    async with watching_load(cluster, load, tally):
        await tally.enough(PATIENCE_SECONDS, operator.check)


async def restart(cluster: Cluster, operator: Operator, objects: int) -> Restart:
    """Stop the operator, start it again, and wait until it has come to rest."""
    await operator.stop()
    since = audit.position(cluster.controlplane.audit_log)
    started = time.perf_counter()
    await operator.start()
    await operator.said("serving")
    synced = time.perf_counter()
    await operator.said(*AT_WORK)
    steady = await steady_at(operator, objects)
    return Restart(synced - started, steady - synced, dict(written(cluster, since)))


async def steady_at(operator: Operator, reconciles: int) -> float:
    """Return when the last reconcile ended, once so many were made and none followed for a while."""
    last, changed = -1.0, time.perf_counter()
    async with asyncio.timeout(_STEADY_SECONDS):
        while True:
            made = await operator.metric("modelyard_reconciles_total")
            now = time.perf_counter()
            if made != last:
                last, changed = made, now
            elif made >= reconciles and now - changed > _QUIET_SECONDS:
                return changed
            await asyncio.sleep(_SCRAPE_EVERY)
