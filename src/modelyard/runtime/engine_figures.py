"""The figures of `modelyard run --engine-metrics`: engines are asked for their metrics, and ours say it in one way.

`manager` runs it while we lead. It reads the cache of pods and the poller, and writes to nothing but our own metrics:
an answer wakes no object. Its counterpart is Prometheus with the recording rules of `deploy/monitoring.yaml`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from modelyard.core.checks.engine_metrics import AT, SAMPLES, EngineMetrics
from modelyard.engines import ENGINES
from modelyard.engines.measured import Measured, Reading, measured, together
from modelyard.kinds.shared.engine_metrics import metrics_check
from modelyard.runtime.cache import OwnerKey, owner_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from modelyard.core.checks import Answer, Check
    from modelyard.core.objects import Stored

    Publish = Callable[[OwnerKey, Measured | None], None]
    """Shows the figures of an object; None: there are none (any more)."""

LOOK_SECONDS: Final = 5.0
"""How often the pods are looked at. A pod that is gone is not asked any more after that long."""


class Server(Struct, frozen=True):
    """One pod of an object, as a reader of the poller."""

    owner: OwnerKey
    uid: str


class FiguresPoller(Protocol):
    """Repeats checks for servers: `net/poller.py`, which the runtime must not import."""

    def look(self, reader: Server, checks: Collection[Check]) -> Mapping[Check, Answer]:
        """Return the answers known so far, and poll exactly these checks for the reader from now on."""

    def known(self, reader: Server) -> Mapping[Check, Answer]:
        """Return the answers known so far to the checks that the reader named last."""

    def forget(self, reader: Server) -> None:
        """Drop the checks that only this reader names."""

    async def run(self) -> None:
        """Poll until cancelled."""


class EngineFigures:
    """Keeps the published figures equal to what the pods of the cache say of themselves."""

    def __init__(
        self,
        pods: Callable[[], Iterable[Stored]],
        poll: Callable[[Callable[[Server], None]], FiguresPoller],
        publish: Publish,
    ) -> None:
        self._pods, self._publish = pods, publish
        self._poller = poll(self.answered)
        self._asked: dict[Server, EngineMetrics] = {}
        self._readings: dict[Server, Reading] = {}
        self._figures: dict[OwnerKey, dict[Server, Measured]] = {}

    async def run(self) -> None:
        """Follow the pods until cancelled. Afterwards nothing is published: another replica asks them then."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._poller.run())
                while True:
                    self.follow()
                    await asyncio.sleep(LOOK_SECONDS)
        finally:
            for server in tuple(self._asked):
                self._drop(server)

    def follow(self) -> None:
        """Ask exactly the pods that the cache holds now."""
        wanted = dict(_servers(self._pods()))
        for server in self._asked.keys() - wanted.keys():
            self._drop(server)
        for server, check in wanted.items():
            if self._asked.get(server) != check:
                self._asked[server] = check
                self._poller.look(server, (check,))

    def answered(self, server: Server) -> None:
        """Publish what a pod has answered, together with the other pods of its object."""
        answer = self._poller.known(server).get(self._asked[server])
        if answer is None or not answer.ok:
            self._forget_figures(server)
            return
        before = self._readings.get(server)
        now = self._readings[server] = Reading(answer.value[AT], answer.value[SAMPLES])
        measures = ENGINES[self._asked[server].engine].measures
        self._figures.setdefault(server.owner, {})[server] = measured(measures, now, before)
        self._republish(server.owner)

    def _drop(self, server: Server) -> None:
        self._poller.forget(server)
        del self._asked[server]
        self._forget_figures(server)

    def _forget_figures(self, server: Server) -> None:
        self._readings.pop(server, None)
        if self._figures.get(server.owner, {}).pop(server, None) is not None:
            self._republish(server.owner)

    def _republish(self, owner: OwnerKey) -> None:
        servers = self._figures[owner]
        self._publish(owner, together(servers.values()) if servers else None)
        if not servers:
            del self._figures[owner]


def _servers(pods: Iterable[Stored]) -> Iterable[tuple[Server, EngineMetrics]]:
    for pod in pods:
        owner, check = owner_of(pod), metrics_check(pod)
        if owner and check:
            yield Server(owner, check.uid), check
