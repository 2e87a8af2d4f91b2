"""Run a node of the cluster on this machine: its Node object, its Lease, and the pods that are bound to it.

`up.machine` runs it. With `pods/` it is the kubelet of this machine. A Node that is deleted, or marked as not ready
because the machine slept, is reported again at once; a deleted Lease is made again with its next renewal.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import aiohttp
import structlog
from msgspec import Struct

from modelyard.core.conditions import Truth, stored_condition
from modelyard.core.resources import LEASE, Key, Resource
from modelyard.kube.client import Client
from modelyard.kube.errors import KubeError, NotFound
from modelyard.kube.watch import Target, follow
from modelyard.local.clock import micro_timestamp, timestamp
from modelyard.local.node import node_status
from modelyard.local.node.hardware import Hardware, Pressure, measure_hardware, measure_pressure
from modelyard.local.node.pods.environment import from_machine
from modelyard.local.node.pods.gpus import Gpus
from modelyard.local.node.pods.node_context import Drain, NodeContext, Timings, no_drain
from modelyard.local.node.pods.pod_workers import PodWorkers
from modelyard.local.node.process.images import ImageTable
from modelyard.local.node.process.podman import Podman
from modelyard.local.node.process.reaper import MARK
from modelyard.local.node.process.reaper_process import exclusive_state
from modelyard.local.node.proxy.addresses import PodAddresses
from modelyard.local.node.proxy.service_dns import ServiceAddresses
from modelyard.local.retry import pause
from modelyard.local.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_log = structlog.get_logger()

# Not `resources.NODE`: of that, only the capacity is kept.
_NODE: Final = Resource("", "v1", "Node", "nodes", namespaced=False)
_RETRY_SECONDS: Final = 1.0
# In renewals of the Lease. The Lease is the heartbeat; the status is repeated in case another client has changed it.
_REPORT_EVERY: Final = 6


class NodeSettings(Struct, frozen=True):
    """The settings of one node, and what it shares with the proxy."""

    client: Client
    state: Path
    name: str
    images: ImageTable
    addresses: PodAddresses
    service_addresses: Callable[[], ServiceAddresses]
    """Returns where Services are reached now."""
    kubelet_port: int = 0
    """The port of the kubelet's server; 0: there is none, and `kubectl logs` fails."""
    drain: Drain = no_drain
    timings: Timings = Timings()


@asynccontextmanager
async def running_node(settings: NodeSettings) -> AsyncIterator[PodWorkers]:
    """Run a node while the block lasts; yields the workers of its pods. At the end all their processes have ended."""
    state = await asyncio.to_thread(settings.state.resolve)
    async with exclusive_state(state, settings.timings.lock), _probe_session() as session:
        hardware = await measure_hardware(state)
        pods = PodWorkers(_context(settings, state, hardware, session), settings.name)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_NodeReporter(settings, state, hardware).run()),
                group.create_task(pods.run()),
            ]
            try:
                yield pods
            finally:
                for task in tasks:
                    task.cancel()


def _probe_session() -> aiohttp.ClientSession:
    """Return an HTTP session for probes. It keeps no connection or cookie, so that each probe is a new caller."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


def _context(settings: NodeSettings, state: Path, hardware: Hardware, session: aiohttp.ClientSession) -> NodeContext:
    return NodeContext(
        client=settings.client,
        state=state,
        images=settings.images,
        podman=Podman(),
        addresses=settings.addresses,
        gpus=Gpus(tuple(gpu.index for gpu in hardware.gpus)),
        capacity=hardware.capacity,
        service_addresses=settings.service_addresses,
        session=session,
        env={**from_machine(os.environ), MARK: str(state)},
        drain=settings.drain,
        timings=settings.timings,
    )


class _NodeReporter:
    """Writes the Node, its status and its Lease."""

    def __init__(self, settings: NodeSettings, state: Path, hardware: Hardware) -> None:
        self._client, self._name, self._port = settings.client, settings.name, settings.kubelet_port
        self._state, self._hardware, self._timings = state, hardware, settings.timings
        self._pressure: Pressure | None = None
        self._report_now = asyncio.Event()
        self._stored = Store(self._check_stored)

    async def run(self) -> None:
        """Report the Node and renew its Lease until cancelled."""
        target = Target(_NODE, field_selector=f"metadata.name={self._name}")
        async with asyncio.TaskGroup() as group:
            group.create_task(follow(self._client, target, self._stored))
            await self._report_forever()

    async def _report_forever(self) -> NoReturn:
        beats, uid = 0, ""
        while True:
            try:
                if beats % _REPORT_EVERY == 0 or self._report_now.is_set() or self._pressure_changed():
                    # Before the report: a doubt that comes during the write must be answered by another one.
                    self._report_now.clear()
                    uid = await self._report()
                await self._renew(uid)
            # An OSError as well: while descriptors have run out, neither memory nor disk can be measured.
            except (KubeError, OSError) as error:
                _log.warning("the node is not reported", node=self._name, error=str(error))
                beats = 0
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                beats += 1
                # The pause ends early when the node controller has marked the node as not ready.
                await pause(self._timings.lease, until=self._report_now)

    def _pressure_changed(self) -> bool:
        return measure_pressure(self._state) != self._pressure

    def _check_stored(self) -> None:
        stored = self._stored.items.get(Key("", self._name))
        if stored is None or stored_condition(stored.status, "Ready").get("status") != Truth.TRUE:
            self._report_now.set()
        else:
            self._report_now.clear()

    async def _report(self) -> str:
        """Create the Node if it is missing, write its labels and status, and return its UID."""
        key, body = Key("", self._name), node_status.node(self._name, self._hardware)
        try:
            node = await self._client.merge_patch(_NODE, key, {"metadata": {"labels": body["metadata"]["labels"]}})
        except NotFound:
            node = await self._client.create(_NODE, body)
        pressure = measure_pressure(self._state)
        status = node_status.status(
            self._name, self._hardware, node.status, timestamp(), port=self._port, pressure=pressure
        )
        await self._client.merge_patch(_NODE, key, {"status": status}, "status")
        self._pressure = pressure
        return node.meta.uid

    async def _renew(self, uid: str) -> None:
        lease = node_status.lease(self._name, micro_timestamp(), uid)
        try:
            await self._client.merge_patch(LEASE, Key(node_status.LEASES, self._name), {"spec": lease["spec"]})
        except NotFound:
            await self._client.create(LEASE, lease)
