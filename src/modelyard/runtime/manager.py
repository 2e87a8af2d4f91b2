"""The operator as a process: informers always, workers while we lead, and an orderly end. controller-runtime's manager.

`app.py` makes one `Operator` and runs it. All parts of the runtime are made and connected here.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog
from msgspec import Struct

from modelyard.core.policy import Policy
from modelyard.core.resources import POD, Key
from modelyard.runtime.apply import Applier
from modelyard.runtime.clock import SystemClock
from modelyard.runtime.controller import Controller
from modelyard.runtime.drift import Drift
from modelyard.runtime.election_thread import Leadership
from modelyard.runtime.engine_figures import EngineFigures
from modelyard.runtime.events import EventRecorder
from modelyard.runtime.gather import Gatherer, Poller
from modelyard.runtime.health import Health
from modelyard.runtime.informers import Informers
from modelyard.runtime.metrics import Metrics
from modelyard.runtime.queue import Queue, SerialLane
from modelyard.runtime.rate_limiter import RateLimiter
from modelyard.runtime.unkept_status import UnkeptStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from modelyard.kinds.contract import Kind
    from modelyard.kube.client import Client
    from modelyard.runtime.dependents import Item
    from modelyard.runtime.engine_figures import FiguresPoller, Server

_log = structlog.get_logger()


class Settings(Struct, frozen=True):
    """What an administrator chooses with the flags of `modelyard run`."""

    lease: Key
    identity: str
    namespace: str = ""
    """The only namespace to watch; empty: all of them."""
    host: str | None = None
    """The address of health and metrics; None: all addresses, because the kubelet probes from outside the pod."""
    health_port: int = 0
    metrics_port: int = 0
    """Zero switches a server off."""
    workers: int = 16
    engine_metrics: bool = False
    """Whether engines are asked for their metrics, to be shown as `modelyard_engine_*`."""
    policy: Policy = Policy()


class RunnablePoller(Poller, Protocol):
    """A poller of checks or calls that works while `run` runs."""

    async def run(self) -> None:
        """Poll until cancelled."""


class Operator:
    """Everything that runs in one operator process."""

    def __init__(
        self,
        kinds: Iterable[Kind],
        settings: Settings,
        connect: Callable[[Metrics], Client],
        poll: Callable[[Client, Callable[[Item], None]], RunnablePoller],
        call: Callable[[Client, Callable[[Item], None]], RunnablePoller],
        measure: Callable[[Callable[[Server], None]], FiguresPoller] | None = None,
    ) -> None:
        clock = SystemClock()
        by_name = {kind.name: kind for kind in kinds}
        self._settings, self._connect = settings, connect
        self.metrics = Metrics()
        # A lane for each kind and namespace: five hundred objects of one must not hold up those of another.
        self.queue: Queue[Item] = Queue(clock, RateLimiter(), lane_of=partial(_lane, by_name))
        self._client = connect(self.metrics)
        drift = Drift(clock, self.metrics.child_differed)
        events = EventRecorder(self._client, clock, settings.identity)
        unkept = UnkeptStatus()
        self._informers = Informers(by_name, self.queue, forget=(drift.forget, events.forget, unkept.forget))
        caches = self._informers.caches
        self._checks, self._calls = poll(self._client, self._informers.wake), call(self._client, self._informers.wake)
        self._gather = Gatherer(
            client=self._client,
            caches=caches,
            dependents=self._informers.dependents,
            checks=self._checks,
            calls=self._calls,
            clock=clock,
            policy=settings.policy,
        )
        self._controller = Controller(
            kinds=by_name,
            client=self._client,
            caches=caches,
            queue=self.queue,
            gather=self._gather,
            applier=Applier(self._client, caches, drift),
            calls=self._calls,
            events=events,
            unkept=unkept,
            clock=clock,
            metrics=self.metrics,
        )
        self._figures = EngineFigures(caches[POD].all, measure, self.metrics.show_figures) if measure else None
        self._leadership = Leadership(lambda: connect(self.metrics), settings.lease, settings.identity)
        self._bind_gauges(by_name)

    def _bind_gauges(self, kinds: dict[str, Kind]) -> None:
        # Zero in a standby: it has no workers, and its queue holds only what the next term of leadership replaces.
        self.metrics.bind_gauge("queue_depth", lambda: self.queue.depth if self._leadership.leading else 0)
        self.metrics.bind_gauge("queue_age_seconds", lambda: self.queue.age if self._leadership.leading else 0.0)
        self.metrics.bind_gauge("leader", lambda: float(self._leadership.leading))
        for name, kind in kinds.items():
            cache = self._informers.caches[kind.resource]
            self.metrics.bind_object_count(name, lambda cache=cache: float(len(cache)))  # type: ignore[misc]

    async def run(self) -> None:
        """Run until cancelled. Then the workers end first, the Lease is released, and the watches end last.

        Released earlier, the Lease would let another replica start while our workers still write.
        """
        settings = self._settings
        health = Health(self._role, self._informers.troubles, self.metrics.registry)
        try:
            async with (
                health.serve(settings.host, settings.health_port, settings.metrics_port),
                asyncio.TaskGroup() as group,
            ):
                watching = group.create_task(
                    self._informers.run(self._client, settings.namespace, self.metrics.watch_restarted)
                )
                try:
                    await self._leadership.run(self._lead)
                finally:
                    watching.cancel()
        finally:
            await self._client.close()

    async def _lead(self) -> None:
        self.queue.reset_ages()
        with self._informers.leading(self._gather.forget):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._checks.run())
                group.create_task(self._calls.run())
                if self._figures:
                    group.create_task(self._figures.run())
                for _ in range(self._settings.workers):
                    group.create_task(self._controller.work())

    def _role(self) -> str:
        return "leader" if self._leadership.leading else "standby"


def _lane(kinds: Mapping[str, Kind], item: Item) -> Hashable:
    pool = kinds[item.kind].pool
    return SerialLane(pool) if pool else (item.kind, item.key.namespace)
