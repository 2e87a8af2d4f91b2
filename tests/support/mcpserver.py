"""Any number of small MCP servers behind one port, for tests and benchmarks. Each is an A2A agent, too, with a card.

Which server is meant is decided by the name in the Host header, as a Service has it, or else by the path. Each can be
told how to behave, counts its calls and keeps real sessions. Asked as a gateway is, it answers as one. Run it alone
with `python -m tests.support.mcpserver`.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
from collections import Counter
from contextlib import asynccontextmanager
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop
from aiohttp import web
from msgspec import Struct

from tests.support.gatewayserver import GATEWAY_PATHS, gateway_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.core.checks.service_address import ServiceAddress

Json = dict[str, Any]

_SERVICE_SUFFIX = ".svc.cluster.local"
CALLS_PATH = "/calls"
"""Where the server says how many calls it has had, if it is asked by no name of a Service."""
_CARD_PATH = "/.well-known/agent-card.json"
_TOO_OLD = "1999-01-01"


class Mood(Enum):
    """How a server answers."""

    JSON = "json"
    EVENTS = "events"
    UNAUTHORIZED = "unauthorized"
    UNAVAILABLE = "unavailable"
    HANG = "hang"
    JUNK = "junk"
    CLOSE = "close"


class Behaviour(Struct, frozen=True):
    """What one server is like."""

    mood: Mood = Mood.JSON
    tools: tuple[str, ...] = ("add", "echo")
    has_tools: bool = True
    page: int = 50
    path: str = ""
    """The only path that it answers at; empty: any."""
    sessions: bool = True
    answers_notes: bool = True
    """Whether it answers what needs no answer. Servers made with mcp-golang do not."""
    insists: bool = False
    """Whether it lists no tools before it was told that the client is ready."""
    speaks: tuple[str, ...] = ("2025-06-18", "2025-03-26")
    failing: tuple[str, ...] = ()
    """Asked as a gateway: the providers that it cannot reach."""
    name: str = "tiny"
    version: str = "1.0"


class McpServers:
    """The servers behind one port. A server that was told nothing is friendly."""

    def __init__(self) -> None:
        self.port = 0
        self.calls: Counter[tuple[str, str]] = Counter()
        self.sessions: dict[str, str] = {}
        self._behaviours: dict[str, Behaviour] = {}
        self._default = Behaviour()
        self._numbers = count(1)
        self._closing = asyncio.Event()

    def become(self, name: str, behaviour: Behaviour) -> None:
        """Tell one server, by its Service's `name.namespace` or by its path, how to behave from now on."""
        self._behaviours[name] = behaviour

    def become_all(self, behaviour: Behaviour) -> None:
        """Tell every server that was not told otherwise how to behave from now on."""
        self._default = behaviour

    def locate(self, _: ServiceAddress) -> tuple[str, int]:
        """Say where any Service is: here."""
        return "127.0.0.1", self.port

    @property
    def cards(self) -> int:
        """How many cards were asked for, over all agents."""
        return sum(times for (_, method), times in self.calls.items() if method == "GET")

    @property
    def handshakes(self) -> int:
        """How many sessions were asked for, over all servers."""
        return sum(times for (_, method), times in self.calls.items() if method == "initialize")

    @asynccontextmanager
    async def serve(
        self, port: int = 0, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> AsyncIterator[McpServers]:
        """Listen on a loopback address until the block ends."""
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port, ssl_context=tls, backlog=1024).start()
            self.port = runner.addresses[0][1]
            yield self
        finally:
            self._closing.set()
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        name = _name(request)
        if name == CALLS_PATH:
            return web.json_response(sum(self.calls.values()))
        behaviour = self._behaviours.get(name, self._default)
        message: Json = msgspec.json.decode(await request.read()) if request.method == "POST" else {}
        self.calls[name, message.get("method", request.method)] += 1
        if behaviour.mood not in (Mood.JSON, Mood.EVENTS):
            return await self._misbehave(request, behaviour.mood)
        if behaviour.path and request.path != behaviour.path:
            return web.Response(status=404)
        if request.method == "GET" and request.path == _CARD_PATH:
            return web.json_response(_card(request, behaviour))
        if request.method == "DELETE":
            return web.Response(status=200 if self.sessions.pop(_session(request), None) else 405)
        if request.method == "GET" and request.path in GATEWAY_PATHS:
            return gateway_page(request, behaviour.failing)
        if request.method != "POST":
            return web.Response(status=405)
        return await self._converse(request, name, behaviour, message)

    async def _misbehave(self, request: web.BaseRequest, mood: Mood) -> web.StreamResponse:
        if mood is Mood.HANG:
            await self._closing.wait()
        if mood is Mood.CLOSE and request.transport is not None:
            request.transport.abort()
        if mood is Mood.JUNK:
            return web.Response(text="<html>Welcome to nginx</html>", content_type="text/html")
        return web.Response(status=401 if mood is Mood.UNAUTHORIZED else 503)

    async def _converse(
        self, request: web.BaseRequest, name: str, behaviour: Behaviour, message: Json
    ) -> web.StreamResponse:
        headers: dict[str, str] = {}
        if message["method"] == "initialize":
            if behaviour.sessions:
                headers["Mcp-Session-Id"] = f"session-{next(self._numbers)}"
                self.sessions[headers["Mcp-Session-Id"]] = name
        elif behaviour.sessions and self.sessions.get(_session(request)) != name:
            return web.Response(status=404)
        unconfirmed = behaviour.insists and not self.calls[name, "notifications/initialized"]
        if unconfirmed and message["method"] == "tools/list":
            return web.Response(status=400)
        if "id" not in message:
            if not behaviour.answers_notes:
                await self._closing.wait()
            return web.Response(status=202, headers=headers)
        reply = {"jsonrpc": "2.0", "id": message["id"], **_outcome(behaviour, message)}
        if behaviour.mood is Mood.EVENTS:
            return await _as_events(request, reply, headers)
        return web.Response(body=msgspec.json.encode(reply), content_type="application/json", headers=headers)


def _name(request: web.BaseRequest) -> str:
    host = request.host.partition(":")[0]
    return host.removesuffix(_SERVICE_SUFFIX) if host.endswith(_SERVICE_SUFFIX) else request.path


def _card(request: web.BaseRequest, behaviour: Behaviour) -> Json:
    return {
        "name": behaviour.name,
        "description": "an agent of tests",
        "version": behaviour.version,
        "url": f"http://{request.host}/a2a",
        "capabilities": {"streaming": True},
        "skills": [{"id": tool, "name": tool, "description": tool, "tags": []} for tool in behaviour.tools],
    }


def _session(request: web.BaseRequest) -> str:
    return request.headers.get("Mcp-Session-Id", "")


def _outcome(behaviour: Behaviour, message: Json) -> Json:
    params = message.get("params", {})
    if message["method"] == "initialize":
        return {"result": _introduction(behaviour, params["protocolVersion"])}
    if message["method"] == "tools/list" and behaviour.has_tools:
        return {"result": _tools(behaviour, int(params.get("cursor", "0")))}
    return {"error": {"code": -32601, "message": "no such method"}}


def _introduction(behaviour: Behaviour, asked: str) -> Json:
    return {
        "protocolVersion": asked if asked in behaviour.speaks else next(iter(behaviour.speaks), _TOO_OLD),
        "capabilities": {"tools": {}} if behaviour.has_tools else {},
        "serverInfo": {"name": behaviour.name, "version": behaviour.version},
    }


def _tools(behaviour: Behaviour, start: int) -> Json:
    end = start + behaviour.page
    page = [{"name": name, "inputSchema": {"type": "object"}} for name in behaviour.tools[start:end]]
    return {"tools": page, "nextCursor": str(end)} if end < len(behaviour.tools) else {"tools": page}


async def _as_events(request: web.BaseRequest, reply: Json, headers: dict[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers=headers)
    response.content_type = "text/event-stream"
    await response.prepare(request)
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hello"}}
    for message in (note, reply):
        await response.write(b"event: message\ndata: " + msgspec.json.encode(message) + b"\n\n")
    await response.write_eof()
    return response


async def _main(host: str, port: int, cert: str, key: str) -> None:
    tls = None
    if cert:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(cert, key)
    async with McpServers().serve(port, tls, host) as servers:
        print(servers.port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--host", default="127.0.0.1", help="such as the ClusterIP of a Service of `make cluster`")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--cert", default="")
    options.add_argument("--key", default="")
    uvloop.run(_main(**vars(options.parse_args())))
