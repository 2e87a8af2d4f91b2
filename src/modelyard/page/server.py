"""The page as a process: what listens, and how it ends. `modelyard page` runs it."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final

from aiohttp import web
from msgspec import Struct

from modelyard.cluster.conversation import Ways
from modelyard.core.errors import ModelyardError
from modelyard.kube.client import Client
from modelyard.kube.transport import HttpTransport
from modelyard.page.access import OneTimeToken, Origins
from modelyard.page.login import BearerLogin, TokenLogin
from modelyard.page.routes import Routes, Surface
from modelyard.page.yard import Yard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from modelyard.kube.connection import Connection
    from modelyard.kube.credentials import Credentials
    from modelyard.page.login import Login

_HERE: Final = "127.0.0.1"
_END_SECONDS: Final = 1.0
"""How long requests in flight may take at the end. Streams never end by themselves."""


class CannotListen(ModelyardError):
    """The port of the page cannot be used."""


class PageSettings(Struct, frozen=True):
    """How the page is served, and of which namespace."""

    port: int = 0
    """0: any that is free."""
    namespace: str = ""
    may_edit: bool = False
    token: str = ""
    """The one-time token; empty: one is made."""
    descriptor: int | None = None
    """A socket that listens already, from the process that started us; None: we listen ourselves."""
    origins: tuple[str, ...] = ()
    """In a cluster: what browsers reach the page under, such as `https://models.example.com`."""
    ways: Ways = Ways()
    """What leads to Services, besides the API server. In a cluster nothing does: each user has rights of their own."""


@asynccontextmanager
async def serving_here(connection: Connection, settings: PageSettings) -> AsyncIterator[str]:
    """Serve the page on loopback while the block lasts, and yield its address with the token."""
    listener = _listener(settings)
    port, token = listener.getsockname()[1], OneTimeToken(settings.token)
    client = Client(HttpTransport(connection))
    yard = Yard(client, settings.namespace)
    origins = Origins({f"http://{_HERE}:{port}", f"http://localhost:{port}"})
    surface = Surface(f"modelyard-{port}", connection.server, may_edit=settings.may_edit, ways=settings.ways)
    following = asyncio.create_task(yard.run())
    try:
        async with _serving(listener, Routes(TokenLogin(token, yard), origins, surface)):
            yield address(port, token.value)
    finally:
        following.cancel()
        await asyncio.wait([following])
        await client.close()


@asynccontextmanager
async def serving_in_cluster(
    connect: Callable[[Credentials], Connection], settings: PageSettings
) -> AsyncIterator[str]:
    """Serve the page of a cluster on all addresses while the block lasts, and yield where.

    It has no credentials of its own.
    """
    is_secure = all(origin.startswith("https://") for origin in settings.origins)
    surface = Surface("modelyard", "", may_edit=settings.may_edit, is_secure=is_secure)
    login: Login = BearerLogin(connect, settings.namespace)
    listener = _listener(settings, "")
    async with _serving(listener, Routes(login, Origins(settings.origins), surface)):
        yield f"port {listener.getsockname()[1]}, for {', '.join(settings.origins)}"


async def until_signalled(serving: AbstractAsyncContextManager[str], say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `say` gets the address."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serving as at:
        say(at)
        await stop.wait()


def address(port: int, token: str) -> str:
    """Return the address that lets one browser in, once."""
    return f"http://{_HERE}:{port}/?token={token}"


def _listener(settings: PageSettings, host: str = _HERE) -> socket.socket:
    if settings.descriptor is not None:
        return socket.socket(fileno=settings.descriptor)
    try:
        return socket.create_server((host, settings.port))
    except OSError as error:
        raise CannotListen(f"port {settings.port} of {host or 'this machine'} cannot be used: {error}") from error


@asynccontextmanager
async def _serving(listener: socket.socket, routes: Routes) -> AsyncIterator[None]:
    # A browser that goes away must end its request: a model would go on for nothing.
    runner = web.AppRunner(
        routes.application(), access_log=None, handler_cancellation=True, shutdown_timeout=_END_SECONDS
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()
        await routes.sessions.end_all()
