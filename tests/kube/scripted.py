"""An HTTP server on loopback that answers by a script: what a real API server does only on its worst days."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web
from msgspec import Struct

from modelyard.kube.client import Client
from modelyard.kube.connection import Connection
from modelyard.kube.credentials import Credentials, Identity, StaticCredentials
from modelyard.kube.transport import HttpTransport

if TYPE_CHECKING:
    import ssl

Json = dict[str, Any]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Asked(Struct, frozen=True):
    """One request that came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Server:
    """Gives one answer of the script after the other; the last one again and again.

    Where it stands is asked whenever a stream is resumed. That is no part of the script.
    """

    def __init__(self, script: tuple[Answer, ...]) -> None:
        self._script = list(script)
        self.asked: list[Asked] = []
        self.revision = 10**9
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.query.get("limit") == "1":
            return await listing(revision=self.revision)(request)
        self.asked.append(
            Asked(request.method, request.raw_path.partition("?")[0], dict(request.query), dict(request.headers), body)
        )
        give = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        return await give(request)


@asynccontextmanager
async def serving(*script: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(script)
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.05, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def transport_to(
    url: str, credentials: Credentials | None = None, **connection: Any
) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(Connection(url, credentials or StaticCredentials(Identity(token="s3cret")), **connection))
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def client_of(server: Server, **options: Any) -> AsyncIterator[Client]:
    async with transport_to(server.url) as transport:
        yield Client(transport, **options)


def status(
    code: int, reason: str = "", message: str = "", *, headers: dict[str, str] | None = None, **more: Any
) -> Answer:
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message, **more}
    return answer(body, code, headers)


def answer(body: Json, code: int = 200, headers: dict[str, str] | None = None) -> Answer:
    return text(msgspec.json.encode(body), code, headers)


def text(body: bytes, code: int = 200, headers: dict[str, str] | None = None) -> Answer:
    async def give(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=code, headers=headers)

    return give


async def lost(request: web.Request) -> web.StreamResponse:
    """Take the request and cut the connection instead of an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def silence(_: web.Request) -> web.StreamResponse:
    """Take the request and never answer."""
    await asyncio.Event().wait()
    raise AssertionError


def stream(*parts: bytes | Json, then: str = "hold") -> Answer:
    """Send parts of a stream (events as dicts, or bytes as they are); then `hold` it open, `end` or `cut` it."""

    async def give(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in parts:
            await response.write(part if isinstance(part, bytes) else msgspec.json.encode(part) + b"\n")
        if then == "hold":
            await asyncio.Event().wait()
        if then == "cut":
            assert request.transport is not None
            request.transport.abort()
        return response

    return give


def pod(name: str, revision: int, **more: Any) -> Json:
    metadata = {"name": name, "namespace": "a", "uid": f"uid-{name}", "resourceVersion": str(revision)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **more}


def event(kind: str, item: Json) -> Json:
    return {"type": kind, "object": item}


def bookmark(revision: int, *, initial: bool = False) -> Json:
    annotations = {"k8s.io/initial-events-end": "true"} if initial else {}
    metadata = {"resourceVersion": str(revision), "annotations": annotations}
    return event("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def error(code: int, reason: str, message: str = "") -> Json:
    return event("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": message})


def listing(*items: Json, revision: int, token: str = "") -> Answer:
    return answer(
        {"kind": "PodList", "metadata": {"resourceVersion": str(revision), "continue": token}, "items": items}
    )
