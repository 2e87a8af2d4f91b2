"""HTTPRoutes of ours, followed by a Gateway that is not: traefik, on the definitions of Gateway API."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yaml

from modelyard.local.ports import free_ports
from tests.e2e.test_canary import KIND, patch, until_split
from tests.e2e.yards import SECONDS, Yard, condition, in_time, zerfoo
from tests.support.gatewayapi import definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Json = dict[str, Any]

HOST = "chat.example.com"
EDGE_HOST = "edge.example.com"
ROUTE = "httproutes.gateway.networking.k8s.io"
TRAEFIK = Path(sys.executable).with_name("traefik")


@pytest.fixture
async def machine(zerfoo_yard: Yard) -> Yard:
    """A machine that does not know Gateway API yet, with a service that has a route."""
    await zerfoo_yard.apply(zerfoo("routed", route={"parentRefs": [{"name": "public"}], "hostnames": [HOST]}))
    return zerfoo_yard


@asynccontextmanager
async def traefik(yard: Yard, port: int) -> AsyncIterator[None]:
    """Run traefik on the cluster, listening at a port of loopback."""
    arguments = (
        f"--entrypoints.web.address=127.0.0.1:{port}",
        "--providers.kubernetesgateway=true",
        # The addresses of endpoints are dialled by the node alone; those of Services by all.
        "--providers.kubernetesgateway.nativelbbydefault=true",
        "--global.sendanonymoususage=false",
        "--global.checknewversion=false",
    )
    process = await asyncio.create_subprocess_exec(
        TRAEFIK,
        *arguments,
        env={**os.environ, "KUBECONFIG": str(yard.folder.kubeconfig)},
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


def gateway(port: int) -> list[Json]:
    group = "gateway.networking.k8s.io/v1"
    listener = {"name": "web", "protocol": "HTTP", "port": port}
    return [
        {
            "apiVersion": group,
            "kind": "GatewayClass",
            "metadata": {"name": "traefik"},
            "spec": {"controllerName": "traefik.io/gateway-controller"},
        },
        {
            "apiVersion": group,
            "kind": "Gateway",
            "metadata": {"name": "public", "namespace": "default"},
            "spec": {"gatewayClassName": "traefik", "listeners": [listener]},
        },
    ]


PUBLIC: Json = {"parentRefs": [{"name": "public"}]}
OWN: Json = {"gatewayClassName": "none", "tls": {"enabled": True, "issuer": "nobody"}}


def edge(block: Json | None) -> Json:
    """Return a gateway of ours that is routed to through this block; None: through none."""
    exposed = {"enabled": block is not None, "gateway": block or {}, "httpRoute": {"hostnames": [EDGE_HOST]}}
    return {
        "apiVersion": "core.inference-gateway.com/v1alpha1",
        "kind": "Gateway",
        "metadata": {"name": "edge"},
        "spec": {"server": {"port": 8081}, "providers": [], "gatewayAPI": exposed},
    }


def stranger() -> Json:
    """Return a route of the same name that is not ours."""
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "edge"},
        "spec": {"hostnames": ["other.example.com"]},
    }


async def until_edge_says(yard: Yard, reason: str) -> Json:
    return await yard.until(lambda body: condition(body).get("reason") == reason, "gateway", "edge")


async def until_gone(yard: Yard, *kinds: str) -> None:
    for kind in kinds:
        await yard.kubectl("wait", "--for=delete", f"{kind}/edge", f"--timeout={SECONDS:.0f}s")


async def check_routes_of_a_gateway(yard: Yard, port: int) -> None:
    """A gateway of ours is reached by its route, which goes when it is switched off, and a stranger's never does."""
    await until_edge_says(yard, "Ready")
    async with in_time(lambda: "traefik does not lead to the gateway"), aiohttp.ClientSession() as session:
        while not await is_reached(session, port):
            await asyncio.sleep(0.1)
    await yard.apply(edge(OWN))
    own = "gateways.gateway.networking.k8s.io"
    await yard.kubectl("wait", "--for=create", f"{own}/edge", f"--timeout={SECONDS:.0f}s")
    await yard.apply(edge(None))
    await until_gone(yard, ROUTE, own)
    await yard.apply(stranger())
    await yard.apply(edge(PUBLIC))
    await until_edge_says(yard, "NameConflict")
    await yard.apply(edge(None))
    await until_edge_says(yard, "Ready")
    route = yaml.safe_load(await yard.kubectl("get", ROUTE, "edge", "-o", "yaml"))
    assert (route["metadata"]["generation"], route["spec"]["hostnames"]) == (1, ["other.example.com"])


async def is_reached(session: aiohttp.ClientSession, port: int) -> bool:
    async with session.get(f"http://127.0.0.1:{port}/health", headers={"Host": EDGE_HOST}) as answer:
        return answer.status == 200


async def until_says(yard: Yard, reason: str) -> Json:
    return await yard.until(lambda body: condition(body, "TrafficSplit").get("reason") == reason, KIND, "routed")


async def answers(port: int, number: int) -> Counter[str]:
    """Ask through the Gateway so many times, and return which model has answered how often."""
    found: Counter[str] = Counter()
    async with aiohttp.ClientSession() as session:
        for _ in range(number):
            async with session.post(f"http://127.0.0.1:{port}/v1", json={}, headers={"Host": HOST}) as response:
                found[(await response.json())["model"] if response.status == 200 else str(response.status)] += 1
    return found


async def until_answered(port: int, model: str) -> None:
    """Wait until a model answers: traefik follows what it has accepted a moment later."""
    found: Counter[str] = Counter()
    async with in_time(lambda: f"{model} does not answer, but: {found}"):
        while model not in (found := await answers(port, 10)):
            await asyncio.sleep(0.1)


async def test_a_gateway_follows_the_weights_and_gateway_api_may_come_and_go(machine: Yard) -> None:
    await until_says(machine, "GatewayAPINotInstalled")
    await machine.apply(edge(PUBLIC))
    await until_edge_says(machine, "GatewayAPINotInstalled")
    files = [str(file) for file in definitions()]
    await machine.kubectl("apply", "--server-side", *(word for file in files for word in ("-f", file)))
    [port] = free_ports(1)
    await until_says(machine, "WaitingForGateway")
    async with traefik(machine, port):
        await machine.apply(*gateway(port))
        await until_says(machine, "RouteAccepted")
        await check_routes_of_a_gateway(machine, port)
        await until_answered(port, "old")
        assert await answers(port, 50) == {"old": 50}
        await patch(machine, "routed", '{"canary": {"modelRef": "new", "weight": 20}}')
        await until_split(machine, "routed", 20)
        await until_answered(port, "new")
        found = await answers(port, 1000)
        assert found.keys() == {"old", "new"}
        assert 0.17 <= found["new"] / 1000 <= 0.23
        await patch(machine, "routed", '{"route": {"parentRefs": [{"name": "public", "sectionName": "none"}]}}')
        await until_says(machine, "RouteNotAccepted")
    await machine.kubectl("delete", "--wait=false", *(word for file in files for word in ("-f", file)))
    body = await until_says(machine, "GatewayAPINotInstalled")
    assert [track["readyReplicas"] for track in body["status"]["tracks"]] == [1, 1]
