"""The host of the toy kind, its definitions and rights, and an operator that serves it."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import uvloop
from aiohttp import web

from modelyard.cli.logging_setup import configure_logging
from modelyard.core.checks import Answer
from modelyard.core.reasons import Reason
from modelyard.core.resources import CONFIG_MAP, Key
from modelyard.kube import config
from modelyard.kube.client import Client
from modelyard.kube.transport import HttpTransport
from modelyard.local.raw_client import RawClientError
from modelyard.manifests import rbac
from modelyard.manifests.crd import crd
from modelyard.net.attempts import Attempts
from modelyard.net.poller import Poller
from modelyard.runtime.manager import Operator, Settings
from tests.support.mcps import condition
from tests.toy import BEACON
from tests.toy.api import FLAG, Douse, Light

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.kube.connection import Connection
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""The schema of a definition that takes whatever it is given."""
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ROLES = "/apis/rbac.authorization.k8s.io/v1"
_SECONDS = 5.0


class Host:
    """A machine outside the cluster: which lamps are lit, and what it was asked to do."""

    def __init__(self) -> None:
        self.url = ""
        self.lit: dict[str, int] = {}
        self.requests: Counter[tuple[str, str]] = Counter()
        self.gate = asyncio.Event()
        """Nothing is answered before it is open."""
        self.gate.set()
        self.status = 200

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Host]:
        application = web.Application()
        application.router.add_put("/beacons/{beacon}/{seat}", self._light)
        application.router.add_delete("/beacons/{beacon}", self._douse)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def asked(self, what: str, beacon: str, times: int = 1) -> None:
        """Wait until it was asked so many times."""
        async with asyncio.timeout(60):
            while self.requests[what, beacon] < times:
                await asyncio.sleep(0.01)

    async def _light(self, request: web.Request) -> web.Response:
        beacon = request.match_info["beacon"]
        self.requests["light", beacon] += 1
        await self.gate.wait()
        if self.status == 200:
            self.lit[beacon] = int(request.match_info["seat"])
        return web.Response(status=self.status)

    async def _douse(self, request: web.Request) -> web.Response:
        beacon = request.match_info["beacon"]
        self.requests["douse", beacon] += 1
        await self.gate.wait()
        if self.status == 200:
            self.lit.pop(beacon, None)
        return web.Response(status=self.status)


HOST = Host()
"""Serves for as long as the tests of a session need it; its address is known once it does."""


async def light(call: Light) -> Answer:
    return await _ask("PUT", f"{call.host}/beacons/{call.beacon}/{call.seat}")


async def douse(call: Douse) -> Answer:
    return await _ask("DELETE", f"{call.host}/beacons/{call.beacon}")


async def _ask(method: str, url: str) -> Answer:
    try:
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.request(method, url) as answer:
            return Answer(answer.status == 200, Reason.ANSWERED, f"the host answered {answer.status}")
    except (aiohttp.ClientError, TimeoutError):
        return Answer(False, Reason.NO_ANSWER, "the host does not answer")


def beacon_operator(settings: Settings, connection: Connection) -> Operator:
    """Return an operator that serves the toy kind and nothing else."""
    return Operator(
        (BEACON,),
        settings,
        lambda metrics: Client(HttpTransport(connection), observe=metrics.requested),
        lambda _, wake: Poller({}, wake, lane_of=lambda item: item.key.namespace),
        lambda _, wake: Poller(
            {Light: light, Douse: douse}, wake, lane_of=lambda item: item.key.namespace, outset=Attempts()
        ),
    )


async def install(admin: RawClient, *, flags: bool = True) -> None:
    """Install the definitions of the toys, and give the operator the rights that they need."""
    await admin.ensure(CRDS, crd(BEACON))
    if flags:
        await install_flags(admin)
    role, binding = rbac.for_cluster([BEACON])[1:3]
    role["metadata"]["name"] = binding["metadata"]["name"] = binding["roleRef"]["name"] = "toys"
    await admin.ensure(f"{_ROLES}/clusterroles", role)
    await admin.ensure(f"{_ROLES}/clusterrolebindings", binding)
    await _until_served(admin, BEACON.resource.path())


def definition(schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a patch that gives Beacons another schema; None: their own."""
    (version,) = crd(BEACON)["spec"]["versions"]
    own = version["schema"]["openAPIV3Schema"]
    return {"spec": {"versions": [{**version, "schema": {"openAPIV3Schema": schema or own}}]}}


async def restore(admin: RawClient) -> None:
    """Give Beacons their own schema again, and wait until it is served: till then, watches are turned away."""
    await admin.patch(f"{CRDS}/{BEACON.resource.label}", definition())
    nonsense = {"apiVersion": BEACON.resource.api_version, "kind": BEACON.resource.kind, "metadata": {"name": "any"}}
    async with asyncio.timeout(60):
        while True:
            try:
                await admin.create(f"{BEACON.resource.path('default')}?dryRun=All", {**nonsense, "spec": {"host": 7}})
            except RawClientError as error:
                if ": 422 " in str(error):
                    return
            await asyncio.sleep(0.05)


async def install_flags(admin: RawClient) -> None:
    """Install the definition that a cluster may lack."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": ANYTHING}}
    spec = {
        "group": FLAG.group,
        "scope": "Namespaced",
        "names": {"plural": FLAG.plural, "singular": "flag", "kind": FLAG.kind},
        "versions": [version],
    }
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    await admin.ensure(CRDS, {**head, "metadata": {"name": FLAG.label}, "spec": spec})
    await _until_served(admin, FLAG.path())


async def remove_flags(admin: RawClient) -> None:
    await admin.delete(f"{CRDS}/{FLAG.label}")
    async with asyncio.timeout(60):
        while await admin.answers(FLAG.path()):
            await asyncio.sleep(0.02)


async def _until_served(admin: RawClient, path: str) -> None:
    async with asyncio.timeout(60):
        while not await admin.answers(path):
            await asyncio.sleep(0.02)


async def create(admin: RawClient, namespace: str, name: str = "tower", **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": BEACON.resource.api_version, "kind": BEACON.resource.kind}
    body = {**head, "metadata": {"name": name}, "spec": {"host": HOST.url, **spec}}
    return await admin.create(BEACON.resource.path(namespace), body)


async def until_ready(recorder: Recorder, namespace: str, name: str = "tower") -> dict[str, Any]:
    def is_ready(item: dict[str, Any] | None) -> bool:
        return condition(item, "Ready").get("status") == "True"

    return await recorder.wait_for(BEACON.resource, namespace, name, is_ready)


WATCHED = (BEACON.resource, CONFIG_MAP)


def main() -> None:
    configure_logging("info", "text")
    uvloop.run(_main())


async def _main() -> None:
    settings = Settings(
        lease=Key(os.environ["LEASE_NAMESPACE"], "beacons"),
        identity=os.environ["IDENTITY"],
        host="127.0.0.1",
        health_port=int(os.environ["HEALTH_PORT"]),
    )
    await beacon_operator(settings, config.find(os.environ)).run()
