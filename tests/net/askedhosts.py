"""Hosts as the operator asks them in tests: servers on this machine under a made-up name, and their Secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from modelyard.core.conditions import Problem
from modelyard.core.hosts import HostAddress, HostProbe, LoadModel, Protocol, SecretKey
from modelyard.core.reasons import Reason
from modelyard.net.hosts.hosts import Hosts
from modelyard.net.hosts.verdicts import HostFailed
from tests.net.upstream import Names, guard
from tests.support.hostdaemon import GIB
from tests.weights.fileserver import serving

if TYPE_CHECKING:
    from modelyard.core.checks import Answer


class Secrets:
    """The Secrets of a namespace."""

    def __init__(self, **values: str) -> None:
        self.values = values

    async def read(self, namespace: str, wanted: SecretKey) -> str:
        assert namespace == "default"
        value = self.values.get(wanted.key.partition(".")[0])
        if value is None:
            raise HostFailed(Problem(Reason.SECRET_NOT_FOUND, "there is no such Secret", "create it"))
        return value


def hosts(secrets: Secrets | None = None, names: Names | None = None) -> Hosts:
    return Hosts(guard(names or Names(mac=[["127.0.0.1"]])), (secrets or Secrets()).read)


def at(port: int, scheme: str = "http", **fields: Any) -> HostAddress:
    return HostAddress("default", f"{scheme}://mac.example:{port}", **fields)


async def probed(handler: Any, protocol: Protocol = Protocol.INFERENCED) -> Answer:
    async with serving(handler) as port:
        return await hosts().probe(HostProbe(at(port, protocol=protocol)))


async def loaded(handler: Any, protocol: Protocol = Protocol.INFERENCED) -> Answer:
    async with serving(handler) as port:
        return await hosts().load(LoadModel(at(port, protocol=protocol), "org/chat", "default/chat", 4 * GIB))


def replying(response: dict[str, Any] | None = None, **others: Any) -> Any:
    """Return a handler: 200 for /healthz, this for everything else."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/healthz":
            return web.Response(text="ok")
        return web.Response(**(response or {}), **others)

    return handler
