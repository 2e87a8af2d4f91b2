"""Memory pressure on a host: which model gives way when the machine is short of memory, and when it returns.

The counterpart of the kubelet's eviction manager. One model at a time, so that the next measurement shows what that
has brought, and never the last one: the machine is there to serve.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NoReturn

import structlog

from modelyard.core.source import redacted
from modelyard.host.memory import Pressure, pressure_of
from modelyard.host.wire import PRIORITIES, State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from modelyard.host.metrics import HostMetrics
    from modelyard.host.model_worker import ModelWorker
    from modelyard.host.models import Models

EVERY_SECONDS: Final = 10.0
_LEAST_READY: Final = 2

_log = structlog.get_logger()


class MemoryWatch:
    """Measures how much memory is available, and evicts models when that is allowed."""

    def __init__(
        self, models: Models, metrics: HostMetrics, available: Callable[[], Awaitable[float | None]], *, evicts: bool
    ) -> None:
        self._models, self._metrics, self._available, self._evicts = models, metrics, available, evicts
        self.pressure = Pressure.NORMAL

    async def run(self) -> NoReturn:
        """Look every ten seconds until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:
                # Models are served all the same, and the next look may succeed.
                _log.exception("memory cannot be measured")
            await asyncio.sleep(EVERY_SECONDS)

    async def look(self) -> None:
        """Measure once: evict a model when memory is critical, and let one return when there is enough again."""
        available = await self._available()
        before, self.pressure = self.pressure, pressure_of(available, self.pressure)
        if self.pressure is not before:
            _log.warning("memory pressure", level=self.pressure, available=available)
        if self.pressure is Pressure.CRITICAL and self._evicts:
            await self._evict()
        if self.pressure is Pressure.NORMAL and (returned := self._models.return_evicted()):
            _log.info("an evicted model returns", model=redacted(returned.id))

    async def _evict(self) -> None:
        victim = choose_victim(self._models)
        if victim is None:
            return
        _log.warning("evicting", model=redacted(victim.id), priority=victim.request.priority)
        self._metrics.evicted(victim.id)
        await self._models.evict(victim)


def choose_victim(workers: Iterable[ModelWorker]) -> ModelWorker | None:
    """Return the ready model that gives way first; None: there are too few, or all others are protected.

    The lowest priority goes first, of equal ones the largest, of these the one that was loaded first.
    """
    ready = [worker for worker in workers if worker.state is State.READY]
    open_to_it = [worker for worker in ready if not worker.request.eviction_protection]
    if len(ready) < _LEAST_READY or not open_to_it:
        return None
    return min(
        open_to_it, key=lambda each: (PRIORITIES.index(each.request.priority), -each.need, each.loaded_at, each.id)
    )
