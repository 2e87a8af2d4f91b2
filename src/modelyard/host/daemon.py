"""The daemon as a process: everything wired together, and its end. `modelyard host` runs it.

On SIGTERM it takes no more connections, lets requests in flight finish, and ends its engines then. When it is killed,
the reaper process ends them.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
import structlog
from aiohttp import web

from modelyard.core.errors import ModelyardError
from modelyard.host.access import Access, make_token, read_token
from modelyard.host.certificate import Certificate
from modelyard.host.engines import read_customs
from modelyard.host.eviction import MemoryWatch
from modelyard.host.memory import MemoryLedger, measure_available, measure_capacity
from modelyard.host.metrics import HostMetrics
from modelyard.host.model_worker import Machine
from modelyard.host.models import Models
from modelyard.host.proxy import Proxy
from modelyard.host.routes import Routes
from modelyard.host.settings import ALL_ADDRESSES, HostRecord, write_host_record
from modelyard.host.wanted import WantedFile
from modelyard.local.files import private_folder
from modelyard.local.node.process.reaper_process import exclusive_state
from modelyard.local.open_files import raise_open_files

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from modelyard.host.settings import HostSettings

_TAKE_OVER_SECONDS: Final = 30.0
"""How long the reaper of a daemon that was killed may take."""

_log = structlog.get_logger()


class CannotListen(ModelyardError):
    """The address or the certificate of the daemon cannot be used."""


async def run_daemon(settings: HostSettings) -> None:
    """Serve until SIGTERM or SIGINT, and return when requests are done and engines have ended."""
    raise_open_files()
    private_folder(settings.state)
    if settings.token_file is None:
        make_token(settings.token)
    read_token(settings.token)
    stop, hurry = _signals()
    async with exclusive_state(settings.state, _TAKE_OVER_SECONDS), _machine(settings) as machine:
        await _serve(settings, machine, stop, hurry)


def _signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Return the events of a first and of a second signal to end."""
    stop, hurry = asyncio.Event(), asyncio.Event()

    def told() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told)
    return stop, hurry


@asynccontextmanager
async def _machine(settings: HostSettings) -> AsyncIterator[Machine]:
    capacity = await measure_capacity(settings.budget)
    customs = read_customs(settings.engines)
    async with aiohttp.ClientSession() as session:
        yield Machine(settings.state, session, MemoryLedger(capacity.budget), capacity, customs, settings.roots)


async def _serve(settings: HostSettings, machine: Machine, stop: asyncio.Event, hurry: asyncio.Event) -> None:
    metrics = HostMetrics()
    models = Models(machine, WantedFile(settings.state / "models.json"), settings.drain_seconds)
    metrics.bind(models, machine.ledger)
    watch = MemoryWatch(models, metrics, measure_available, evicts=settings.evicts)
    proxy = Proxy(models, metrics)
    access = Access(settings.networks, settings.token)
    routes = Routes(models, proxy, access, metrics, machine.ledger, lambda: watch.pressure)
    watching = asyncio.create_task(watch.run())
    try:
        # Before the first request: one for a model that is about to be restored must find it.
        models.restore()
        async with _listening(settings, routes, hurry):
            await stop.wait()
    finally:
        watching.cancel()
        await asyncio.wait({watching})
        proxy.close()
        await models.stop()


@asynccontextmanager
async def _listening(settings: HostSettings, routes: Routes, hurry: asyncio.Event) -> AsyncIterator[None]:
    """Serve while the block lasts. At its end, wait for requests in flight, unless there is a second signal."""
    # A client that goes away must end its request: the engine would go on for nothing.
    runner = web.AppRunner(
        routes.application(), access_log=None, handler_cancellation=True, shutdown_timeout=settings.drain_seconds
    )
    await runner.setup()
    try:
        await _listen(runner, settings)
        yield
    finally:
        routes.is_draining = True
        draining = asyncio.create_task(runner.cleanup())
        hurried = asyncio.create_task(hurry.wait())
        # With a limit of our own: aiohttp waits for as long once more before it ends a request.
        await asyncio.wait({draining, hurried}, timeout=settings.drain_seconds, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        draining.cancel()
        await asyncio.wait({draining, hurried})
        _break_off(runner)


def _break_off(runner: web.AppRunner) -> None:
    """End the requests that are left. An engine that is to end would go on for as long as it has clients."""
    for connection in runner.server.connections if runner.server else ():
        if connection.transport is not None:
            connection.transport.abort()


async def _listen(runner: web.AppRunner, settings: HostSettings) -> None:
    context = _tls_context(settings)
    try:
        await _site(runner, settings, context).start()
    except OSError as error:
        where = f"{settings.host} port {settings.port}"
        raise CannotListen(f"cannot listen at {where}: {error}; choose another with --listen") from error
    port = runner.addresses[0][1]
    record = HostRecord(port, str(settings.token.absolute()), settings.recorded_address, is_tls=context is not None)
    write_host_record(settings.state, record)
    _log.info("serving", host=settings.host, port=port, tls=context is not None, state=str(settings.state))


def _tls_context(settings: HostSettings) -> ssl.SSLContext | None:
    try:
        return Certificate(settings.tls).context if settings.tls else None
    except OSError as error:
        raise CannotListen(f"the certificate cannot be used: {error}; see --tls-cert and --tls-key") from error


def _site(runner: web.AppRunner, settings: HostSettings, context: ssl.SSLContext | None) -> web.BaseSite:
    """Return the socket to serve at. That of `::` takes IPv4 as well, as with most servers; asyncio's would not."""
    if settings.host != ALL_ADDRESSES:
        return web.TCPSite(runner, settings.host, settings.port, ssl_context=context)
    address = (settings.host, settings.port)
    both = socket.create_server(address, family=socket.AF_INET6, dualstack_ipv6=socket.has_dualstack_ipv6())
    return web.SockSite(runner, both, ssl_context=context)
