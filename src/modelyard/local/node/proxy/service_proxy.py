"""kube-proxy for this node: make every Service reachable on this machine, on Linux at its own ClusterIP.

`up.machine` runs it beside the node. It follows Services and EndpointSlices, and keeps one `Forwarder` per port. While
the API server is away everything stays as it was. A Service whose address another program uses gets another port, and
an Event that says so; one that can listen nowhere also gets a condition.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NoReturn

import structlog

from modelyard.core.resources import ENDPOINT_SLICE, EVENT, SERVICE, Key
from modelyard.kube.errors import KubeError
from modelyard.kube.watch import Target, follow
from modelyard.local.clock import timestamp
from modelyard.local.node.proxy.addresses import MANY, HostPort
from modelyard.local.node.proxy.forwarder import AddressInUse, Forwarder
from modelyard.local.node.proxy.routes import Route, routes
from modelyard.local.node.proxy.service_events import ServiceWarning, changed_conditions, moved, service_event
from modelyard.local.retry import pause
from modelyard.local.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.kube.client import Client
    from modelyard.local.node.proxy.addresses import PodAddress, PodAddresses
    from modelyard.local.node.proxy.service_dns import ServiceAddresses

_API: Final = Key("default", "kubernetes")
_TRY_AGAIN_SECONDS: Final = 5.0
# The longest pause that is expected within one answer. The proxy forwards bytes, and does not see where one ends.
_QUIET_SECONDS: Final = 5.0
_DRAIN_POLL_SECONDS: Final = 0.05
_log = structlog.get_logger()

_Listener = tuple[Key, tuple[HostPort, ...]]


class ServiceProxy:
    """The forwarders of all Services of the cluster. Made inside an event loop.

    `apiserver` is the address behind the Service `kubernetes`, which has no endpoints on one machine; None: it has.
    """

    def __init__(self, addresses: PodAddresses, apiserver: HostPort | None = None, *, many: bool = MANY) -> None:
        self._addresses, self._apiserver, self._many = addresses, apiserver, many
        self._changed = asyncio.Event()
        self._synced = asyncio.Event()
        self._services = Store(self._changed.set)
        self._slices = Store(self._changed.set)
        self._forwarders: dict[_Listener, Forwarder] = {}
        self._closing: set[Forwarder] = set()
        self._unreachable: dict[_Listener, str] = {}
        self._told: dict[Key, ServiceWarning] = {}
        self._draining_pods: set[PodAddress] = set()
        self._service_addresses: dict[Key, dict[int, HostPort]] = {}
        self._moved = asyncio.Event()

    @property
    def service_addresses(self) -> ServiceAddresses:
        """The address of each port of each Service that can be reached now."""
        return self._service_addresses

    @property
    def unreachable(self) -> dict[Key, str]:
        """The Services that cannot be reached because other programs use their addresses, and the errors."""
        return {service: why for (service, _), why in self._unreachable.items() if not self._is_api(service)}

    async def move(self) -> None:
        """Wait until an address of a Service changes. Any number of tasks may wait."""
        await self._moved.wait()

    async def synced(self) -> None:
        """Wait until the Services that existed at the start are reachable, or known not to be."""
        await self._synced.wait()

    async def drain(self, pod: PodAddress) -> None:
        """Send new callers to other endpoints than this pod, if there are any; return when none awaits its answer."""
        self._draining_pods.add(pod)
        self._sync()
        while self._is_awaited(pod):  # noqa: ASYNC110 - silence is no event
            await asyncio.sleep(_DRAIN_POLL_SECONDS)

    def _is_awaited(self, pod: PodAddress) -> bool:
        return any(each.awaits(pod, _QUIET_SECONDS) for each in (*self._forwarders.values(), *self._closing))

    async def run(self, client: Client) -> NoReturn:
        """Follow Services and EndpointSlices until cancelled; then reset all connections."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(follow(client, Target(SERVICE), self._services))
                group.create_task(follow(client, Target(ENDPOINT_SLICE), self._slices))
                await self._sync_forever(client)
        finally:
            async with asyncio.TaskGroup() as group:
                for forwarder in (*self._forwarders.values(), *self._closing):
                    group.create_task(forwarder.stop())

    async def _sync_forever(self, client: Client) -> NoReturn:
        while True:
            await pause(_TRY_AGAIN_SECONDS if self._unreachable else None, until=self._changed)
            self._changed.clear()
            self._sync()
            if self._services.is_filled and self._slices.is_filled:
                self._synced.set()
            await self._send_warnings(client)
            await self._write_conditions(client)

    async def _write_conditions(self, client: Client) -> None:
        """Say on each Service that it can listen nowhere, and no longer say so when it can."""
        unreachable = self.unreachable
        for key, service in tuple(self._services.items.items()):
            conditions = changed_conditions(service, unreachable.get(key, ""), timestamp())
            if conditions is None:
                continue
            try:
                await client.merge_patch(SERVICE, key, {"status": {"conditions": conditions}}, "status")
            except KubeError as error:
                _log.warning("condition is not written", service=str(key), error=str(error))

    async def _send_warnings(self, client: Client) -> None:
        """Send an Event about each Service that listens elsewhere than its port says, or nowhere; once."""
        warnings = self._warnings()
        for service in warnings.keys() - self._told.keys():
            _log.warning("a Service is not where its port says", service=str(service), note=warnings[service].note)
            try:
                about = self._services.items[service]
                await client.create(EVENT, service_event(about, warnings[service], datetime.now(UTC)))
            except KubeError as error:
                _log.warning("event is not written", service=str(service), error=str(error))
        self._told = warnings

    def _warnings(self) -> dict[Key, ServiceWarning]:
        found = {service: ServiceWarning("Unreachable", why) for service, why in self.unreachable.items()}
        for (service, choices), forwarder in self._forwarders.items():
            # Where all Services share 127.0.0.1 (macOS), each has a port of its own, and that is no news.
            if self._many and forwarder.address != choices[0] and not self._is_api(service):
                found[service] = moved(choices[0], forwarder.address)
        return {service: warning for service, warning in found.items() if service in self._services.items}

    def _sync(self) -> None:
        wanted = routes(self._services.items.values(), self._slices.items.values(), many=self._many)
        listeners = {(route.service, route.choices): route for route in wanted}
        # Those that go come first: a Service that was made anew may have the address of the old one.
        for listener in self._forwarders.keys() - listeners.keys():
            self._close(self._forwarders.pop(listener))
        self._unreachable = {listener: why for listener, why in self._unreachable.items() if listener in listeners}
        # A pod that no EndpointSlice names is gone, and its address may soon be that of another pod.
        self._draining_pods = {pod for pod in self._draining_pods if any(map(pod.has, self._endpoints(wanted)))}
        for listener, route in listeners.items():
            self._ensure(listener, route)
        self._publish(self._reached(listeners))
        self._closing = {forwarder for forwarder in self._closing if not forwarder.is_idle}

    def _publish(self, reached: dict[Key, dict[int, HostPort]]) -> None:
        if reached == self._service_addresses:
            return
        self._service_addresses = reached
        # A new event for the next change: to clear this one would leave out the tasks that have not run yet.
        self._moved.set()
        self._moved = asyncio.Event()

    def _ensure(self, listener: _Listener, route: Route) -> None:
        try:
            self._serve(listener, route)
        except AddressInUse as error:
            if broken := self._forwarders.pop(listener, None):
                self._close(broken)
            self._unreachable[listener] = str(error)
        else:
            self._unreachable.pop(listener, None)

    def _serve(self, listener: _Listener, route: Route) -> None:
        forwarder, targets = self._forwarders.get(listener) or self._listen(listener, route), self._targets(route)
        try:
            forwarder.set_targets(targets)
        except AddressInUse:
            # A program has begun to listen on all addresses since we bound this one. Another one of ours is free.
            self._close(self._forwarders.pop(listener))
            self._listen(listener, route).set_targets(targets)

    def _listen(self, listener: _Listener, route: Route) -> Forwarder:
        forwarder = self._forwarders[listener] = Forwarder(route.choices)
        return forwarder

    def _close(self, forwarder: Forwarder) -> None:
        forwarder.close()
        self._closing.add(forwarder)

    def _targets(self, route: Route) -> list[HostPort]:
        if self._apiserver and self._is_api(route.service) and not route.endpoints:
            return [self._apiserver]
        found = self._endpoints([route])
        staying = [address for address in found if not any(pod.has(address) for pod in self._draining_pods)]
        return staying or found

    def _endpoints(self, wanted: Iterable[Route]) -> list[HostPort]:
        found = (self._addresses.where(endpoint) for route in wanted for endpoint in route.endpoints)
        return [address for address in found if address is not None]

    def _reached(self, listeners: dict[_Listener, Route]) -> dict[Key, dict[int, HostPort]]:
        reached: dict[Key, dict[int, HostPort]] = {}
        for listener, route in listeners.items():
            forwarder = self._forwarders.get(listener)
            # This Service has the same ClusterIP on every `modelyard up`, and only one of them can listen there.
            directly = self._apiserver if self._is_api(route.service) else None
            address = forwarder.address if forwarder else directly
            if address and route.port:
                reached.setdefault(route.service, {})[route.port] = address
        return reached

    def _is_api(self, service: Key) -> bool:
        return service == _API and self._apiserver is not None
