"""From the first object created to the last one done: how long, how much, and with which writes."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from bench import audit
from bench.cluster import USER
from bench.objects import create_all
from bench.process import cpu_seconds, memory_mb
from bench.witness import Tally, watching

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import AsyncIterator, Callable

    from bench.cluster import Cluster
    from bench.objects import Load
    from bench.program import Program
    from modelyard.core.objects import Stored

PATIENCE_SECONDS = 300.0

_AUDIT_SECONDS = 0.5


class Run(Struct, frozen=True):
    """One measurement."""

    objects: int
    seconds: float
    cpu_seconds: float
    memory_mb: float
    peak_mb: float
    writes: dict[str, int]

    @property
    def writes_per_object(self) -> float:
        """All writes of the measured program, for one object."""
        return sum(self.writes.values()) / self.objects


async def converge(cluster: Cluster, measured: Program, load: Load, done: Callable[[Stored], bool]) -> Run:
    """Create all objects of a load and wait until all of them are done."""
    tally = Tally(done, load.total)
    async with watching_load(cluster, load, tally):
        start, used = time.perf_counter(), cpu_seconds(measured.pid)
        await create_all(cluster.client, load)
        await tally.enough(PATIENCE_SECONDS, measured.check)
        used = cpu_seconds(measured.pid) - used
    # The API server tells the audit log of a write a moment after it has told those who watch.
    await asyncio.sleep(_AUDIT_SECONDS)
    return Run(
        objects=load.total,
        seconds=tally.reached - start,
        cpu_seconds=used,
        memory_mb=memory_mb(measured.pid),
        peak_mb=memory_mb(measured.pid, peak=True),
        writes=dict(sorted(written(cluster).items())),
    )


@asynccontextmanager
async def watching_load(cluster: Cluster, load: Load, seen: Callable[[Stored], None]) -> AsyncIterator[None]:
    """Call `seen` with every version of every object of a load until the block ends."""
    async with AsyncExitStack() as watches:
        for subject, _ in load.parts:
            await watches.enter_async_context(watching(cluster.client, subject.kind.resource, seen))
        yield


def written(cluster: Cluster, since: int = 0) -> Counter[str]:
    """Count what the measured program has written since a position of the audit log."""
    return audit.writes(cluster.controlplane.audit_log, USER, since)


def is_ready(item: Stored) -> bool:
    """Whether an object says that it is ready, and speaks of what it was last told."""
    told = {entry["type"]: entry for entry in item.status.get("conditions", ())}.get("Ready", {})
    return bool(told.get("status") == "True" and told.get("observedGeneration") == item.meta.generation)


def has_status(item: Stored) -> bool:
    """Whether anything was said of an object; that happens after its children are created."""
    return bool(item.status.get("conditions"))
