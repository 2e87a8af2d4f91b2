"""Every Service of a real cluster is reachable on this machine, and leads to ready pods only."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from msgspec import Struct

from modelyard.core.resources import Key
from modelyard.local.controlplane import ControlPlane
from modelyard.local.node.proxy.addresses import HostPort, PodAddress, PodAddresses
from modelyard.local.node.proxy.service_dns import resolve_names
from modelyard.local.node.proxy.service_proxy import ServiceProxy
from modelyard.local.ports import is_free

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from modelyard.kube.client import Client

_SECONDS = 60.0
_PORT = 8080
_NODE_PORTS = range(30000, 32768)
_PODS = "/api/v1/namespaces/default/pods"
_SERVICES = "/api/v1/namespaces/default/services"


class Machine(Struct):
    """Services that are kept, and pods that are played: each answers with its name."""

    plane: ControlPlane
    node: str
    addresses: PodAddresses
    services: ServiceProxy

    @asynccontextmanager
    async def pod(self, app: str) -> AsyncIterator[str]:
        name = f"{app}-{uuid4().hex[:6]}"
        spec = {"nodeName": self.node, "containers": [{"name": "main", "image": "x"}]}
        stored = await self.plane.admin.create(
            _PODS, {"metadata": {"name": name, "labels": {"app": app}}, "spec": spec}
        )
        address = self.addresses.take(stored["metadata"]["uid"])
        async with _answering(address, name):
            await self.report(name, address, ready=True)
            yield name
        await self.plane.admin.delete(f"{_PODS}/{name}?gracePeriodSeconds=0")

    async def report(self, name: str, address: PodAddress, *, ready: bool) -> None:
        status = {
            "phase": "Running",
            "podIP": address.shown,
            "podIPs": [{"ip": address.shown}],
            "conditions": [{"type": "Ready", "status": str(ready)}],
        }
        await self.plane.admin.patch(f"{_PODS}/{name}/status", {"status": status})

    async def is_ready(self, name: str, *, ready: bool) -> None:
        stored = await self.plane.admin.get(f"{_PODS}/{name}")
        await self.report(name, self.addresses.take(stored["metadata"]["uid"]), ready=ready)

    @asynccontextmanager
    async def service(self, name: str, port: int = _PORT, **spec: Any) -> AsyncIterator[dict[str, Any]]:
        wanted = {"selector": {"app": name}, "ports": [{"port": port, "targetPort": _PORT}], **spec}
        stored = await self.plane.admin.create(_SERVICES, {"metadata": {"name": name}, "spec": wanted})
        yield stored["spec"]
        await self.plane.admin.delete(f"{_SERVICES}/{name}")


@asynccontextmanager
async def _answering(address: PodAddress, text: str) -> AsyncIterator[None]:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text.encode())
        writer.close()

    server = await asyncio.start_server(answer, address.ip, address.port or _PORT)
    try:
        yield
    finally:
        server.close()


@pytest.fixture(params=[True, False], ids=["many addresses", "one address"])
async def machine(request: pytest.FixtureRequest, plane: ControlPlane, client: Client) -> AsyncIterator[Machine]:
    # A new one for each test: of a node that has been silent for a minute, Kubernetes says that no pod is ready.
    node = f"played-{uuid4().hex[:8]}"
    await plane.admin.create("/api/v1/nodes", {"metadata": {"name": node}})
    addresses = PodAddresses(many=request.param)
    apiserver = HostPort("127.0.0.1", urlsplit(plane.url).port or 0)
    async with _serving(client, apiserver, addresses, many=request.param) as services:
        yield Machine(plane, node, addresses, services)
    await plane.admin.delete(f"/api/v1/nodes/{node}")


@asynccontextmanager
async def _serving(
    client: Client, apiserver: HostPort, addresses: PodAddresses | None = None, *, many: bool = True
) -> AsyncIterator[ServiceProxy]:
    services = ServiceProxy(addresses or PodAddresses(many=many), apiserver, many=many)
    running = asyncio.create_task(services.run(client))
    async with asyncio.timeout(_SECONDS):
        await services.synced()
    try:
        yield services
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def _answer(place: HostPort) -> str:
    """Return who answers at a place; empty: nobody listens there, or somebody stops to just now."""
    try:
        reader, writer = await asyncio.open_connection(*place)
    except ConnectionError:
        return ""
    try:
        return (await reader.read()).decode()
    except ConnectionError:
        return ""
    finally:
        writer.close()


async def _until(question: Callable[[], Awaitable[object]], expected: object) -> None:
    async with asyncio.timeout(_SECONDS):
        while await question() != expected:
            await asyncio.sleep(0.02)


async def _place(machine: Machine, name: str) -> HostPort:
    async with asyncio.timeout(_SECONDS):
        while Key("default", name) not in machine.services.service_addresses:
            await asyncio.sleep(0.02)
    (place,) = machine.services.service_addresses[Key("default", name)].values()
    return place


@pytest.mark.parametrize("machine", [True], indirect=True, ids=["many addresses"])
async def test_a_service_is_reached_at_its_own_address_and_port(machine: Machine) -> None:
    async with machine.service("own") as spec, machine.pod("own") as pod:
        await _until(lambda: _answer(HostPort(spec["clusterIP"], _PORT)), pod)
        assert machine.services.service_addresses[Key("default", "own")] == {_PORT: HostPort(spec["clusterIP"], _PORT)}


async def test_a_name_leads_a_local_process_to_the_pods(machine: Machine) -> None:
    async with machine.service("named") as _, machine.pod("named") as pod:
        place = await _place(machine, "named")
        await _until(lambda: _answer(place), pod)
        assert resolve_names("http://named.default.svc:8080", machine.services.service_addresses) == f"http://{place}"


async def test_only_ready_pods_answer_and_without_any_callers_are_refused(machine: Machine) -> None:
    async with machine.service("ready"), machine.pod("ready") as one, machine.pod("ready") as other:
        place = await _place(machine, "ready")

        async def who() -> set[str]:
            return {await _answer(place) for _ in range(4)}

        await _until(who, {one, other})
        await machine.is_ready(one, ready=False)
        await _until(who, {other})
        await machine.is_ready(other, ready=False)
        await _until(who, {""})
        await machine.is_ready(one, ready=True)
        await _until(who, {one})


async def test_a_service_that_is_deleted_listens_no_more(machine: Machine) -> None:
    async with machine.pod("brief") as pod:
        async with machine.service("brief"):
            place = await _place(machine, "brief")
            await _until(lambda: _answer(place), pod)
        await _until(lambda: _answer(place), "")
        assert Key("default", "brief") not in machine.services.service_addresses


async def test_a_node_port_is_reached_at_the_first_loopback_address(machine: Machine) -> None:
    async with machine.service("offered", type="NodePort") as spec, machine.pod("offered") as pod:
        await _until(lambda: _answer(HostPort("127.0.0.1", spec["ports"][0]["nodePort"])), pod)


@pytest.mark.parametrize("machine", [True], indirect=True, ids=["many addresses"])
async def test_a_service_that_can_listen_nowhere_says_so_until_it_can(machine: Machine) -> None:
    async def told() -> list[tuple[str, str, str]]:
        status = (await machine.plane.admin.get(f"{_SERVICES}/nowhere"))["status"]
        return [(one["type"], one["status"], one["message"]) for one in status.get("conditions", ())]

    port = next(port for port in _NODE_PORTS if is_free(port))
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
        holder.listen()
        ports = [{"port": _PORT, "nodePort": port}]
        async with machine.service("nowhere", type="NodePort", ports=ports), machine.pod("nowhere"):
            why = f"nothing can listen on 127.0.0.1:{port}: Address already in use; end the program that uses the port"
            await _until(told, [("modelyard.dev/Reachable", "False", why)])
            holder.close()
            await _until(told, [])


@pytest.mark.parametrize("machine", [True], indirect=True, ids=["many addresses"])
async def test_a_service_whose_port_is_taken_listens_on_another(machine: Machine) -> None:
    with socket.socket() as holder:
        holder.bind(("0.0.0.0", 0))
        holder.listen()
        port = holder.getsockname()[1]
        async with machine.service("moved", port) as spec, machine.pod("moved") as pod:
            place = await _place(machine, "moved")
            assert (place.host, place.port != port) == (spec["clusterIP"], True)
            await _until(lambda: _answer(place), pod)


@pytest.mark.parametrize("machine", [True], indirect=True, ids=["many addresses"])
async def test_a_program_that_takes_the_port_of_a_service_later_is_stepped_aside_for_until_it_ends(
    machine: Machine,
) -> None:
    key, events = Key("default", "aside"), "/apis/events.k8s.io/v1/namespaces/default/events"

    async def address() -> HostPort | None:
        return machine.services.service_addresses.get(key, {}).get(port)

    async def reasons() -> set[str]:
        told = (await machine.plane.admin.get(events))["items"]
        return {event["reason"] for event in told if event["regarding"]["name"] == "aside"}

    with socket.socket() as holder:
        # As most servers do. With it the port of a Service that has no endpoints can be taken.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("0.0.0.0", 0))
        port = holder.getsockname()[1]
        async with machine.service("aside", port) as spec:
            own = HostPort(spec["clusterIP"], port)
            await _until(address, own)
            holder.listen()
            async with machine.pod("aside") as pod:
                await _until(lambda: _answer_elsewhere(machine, key, own), pod)
                await _until(reasons, {"PortInUse"})
                holder.close()
            await _until(address, own)


async def _answer_elsewhere(machine: Machine, service: Key, own: HostPort) -> str:
    (place,) = machine.services.service_addresses[service].values()
    return "" if place == own else await _answer(place)


async def test_the_api_server_is_reached_by_its_service(machine: Machine) -> None:
    await _reaches_the_api_server(machine, machine.services)


async def _reaches_the_api_server(machine: Machine, services: ServiceProxy) -> None:
    place = services.service_addresses[Key("default", "kubernetes")][443]
    trust = ssl.create_default_context(cafile=str(machine.plane.ca))
    _, writer = await asyncio.open_connection(*place, ssl=trust, server_hostname="kubernetes.default.svc")
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@pytest.mark.parametrize("machine", [True], indirect=True, ids=["many addresses"])
async def test_three_machines_of_one_computer_each_reach_their_own_api_server(machine: Machine, client: Client) -> None:
    here = HostPort("127.0.0.1", urlsplit(machine.plane.url).port or 0)
    async with _serving(client, here), _serving(client, here) as third:
        await _reaches_the_api_server(machine, third)
        assert Key("default", "kubernetes") not in third.unreachable


async def test_services_stay_as_they_are_while_the_api_server_is_away(machine: Machine) -> None:
    async with machine.service("steady"), machine.pod("steady") as pod:
        place = await _place(machine, "steady")
        await _until(lambda: _answer(place), pod)
        await machine.plane.kill_apiserver()
        assert await _answer(place) == pod
        await machine.plane.restart_apiserver()
        await machine.is_ready(pod, ready=False)
        await _until(lambda: _answer(place), "")
