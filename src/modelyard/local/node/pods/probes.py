"""The startup, liveness and readiness probes of a container, and its lifecycle hooks: the kubelet's prober.

`container_worker` runs them beside the process. The rules are the kubelet's, with two differences. Until its first
success a container is probed every second, whatever its period, so that a model that is loaded is served at once;
failures still count only once per period, so none is given up earlier for that. A gRPC probe only connects.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import aiohttp
from msgspec import Struct

from modelyard.local.node.podspec import Container, Port, Probe
from modelyard.local.node.process.reaper import kill_group

if TYPE_CHECKING:
    from modelyard.local.node.podspec import Action, HttpGet

_STARTING_EVERY: Final = 1.0
# Timers end a little early. A failure that comes this early must still count for its period.
_TOLERANCE: Final = 0.1
_GOOD: Final = range(200, 400)

Localize = Callable[[str], str]
Enter = Callable[[bool], tuple[str, ...]]


def _by_itself(terminal: bool) -> tuple[str, ...]:  # noqa: ARG001 - a process of this machine is in no container
    return ()


class ContainerAccess(Struct, frozen=True):
    """What is needed to send a probe to a container, or to run a command in it."""

    session: aiohttp.ClientSession
    host: str
    only_port: int | None
    """The port that stands for every port of the container; None: the pod has an address of its own."""
    ports: tuple[Port, ...]
    env: Mapping[str, str]
    folder: str
    localize: Localize
    """Replaces paths of the container and names of Services in one word of a command."""
    patience: float = 20.0
    """Seconds for which a startup probe may fail before that is told: a model that loads is no news."""
    enter: Enter = _by_itself
    """Returns the words to put before a command, so that it runs in the container; True: with a terminal."""


class ProbeFailed(Exception):
    """A probe or hook failed; the text says how."""


async def run_handler(action: Action, access: ContainerAccess, seconds: float) -> None:
    """Run the handler of a probe or hook once; `ProbeFailed` when it fails or takes more than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await _run_handler(action, access)
    except TimeoutError:
        raise ProbeFailed(f"no answer within {seconds:g} s") from None
    except ValueError as error:
        # A host that is no name, or a header with the end of a line: the API server lets both pass.
        raise ProbeFailed(f"it cannot be carried out as it is written: {error}") from error
    except (OSError, aiohttp.ClientError) as error:
        raise ProbeFailed(_in_words(error, _dialled(action, access))) from error


def _in_words(error: OSError | aiohttp.ClientError, port: int | None) -> str:
    match error:
        case aiohttp.ClientSSLError():
            return f"port {port} does not speak TLS"
        case ConnectionRefusedError() | aiohttp.ClientConnectorError():
            return f"nothing listens on port {port}"
        case aiohttp.ServerDisconnectedError() | ConnectionResetError():
            return f"port {port} closed the connection without an answer"
        case OSError() if error.strerror:
            return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError():
            return f"port {port} does not speak HTTP"
    return f"port {port} cannot be asked"


def _dialled(action: Action, access: ContainerAccess) -> int | None:
    target = action.http_get or action.tcp_socket or action.grpc
    return _port(access, target.port) if target else None


async def _run_handler(action: Action, access: ContainerAccess) -> None:
    if action.http_get is not None:
        await _get(action.http_get, access)
    elif action.exec is not None:
        await _run(action.exec.command, access)
    elif action.sleep is not None:
        await asyncio.sleep(action.sleep.seconds)
    elif listens := action.tcp_socket or action.grpc:
        await _connect(listens.host or access.host, _port(access, listens.port))


async def _get(action: HttpGet, access: ContainerAccess) -> None:
    host, port = action.host or access.host, _port(access, action.port)
    url = f"{action.scheme.lower()}://{host}:{port}/{action.path.removeprefix('/')}"
    headers = {header.name: header.value for header in action.http_headers}
    async with access.session.get(url, headers=headers, ssl=False, allow_redirects=False) as response:
        if response.status not in _GOOD:
            raise ProbeFailed(f"HTTP {response.status}")


async def _connect(host: str, port: int) -> None:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _run(command: tuple[str, ...], access: ContainerAccess) -> None:
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *access.enter(False),
        *(access.localize(word) for word in command),
        stdin=quiet,
        stdout=quiet,
        stderr=quiet,
        env=dict(access.env),
        cwd=access.folder,
        start_new_session=True,
    )
    try:
        code = await process.wait()
    finally:
        kill_group(process.pid)
    if code:
        raise ProbeFailed(f"exit code {code}")


def _port(access: ContainerAccess, port: int | str) -> int:
    if access.only_port is not None:
        return access.only_port
    if isinstance(port, int):
        return port
    named = {each.name: each.container_port for each in access.ports}
    if port not in named:
        raise ProbeFailed(f"there is no port named {port}")
    return named[port]


class Tally:
    """The results of a probe in a row, against its success and failure thresholds."""

    def __init__(self, probe: Probe, began: float) -> None:
        self._probe = probe
        self._good = self._bad = 0
        self._counted_at = began

    def add(self, now: float, *, good: bool) -> bool | None:
        """Count one result; return the result of the probe, None: no threshold is reached."""
        if good:
            self._good, self._bad = self._good + 1, 0
            return True if self._good >= self._probe.success_threshold else None
        self._good = 0
        if now - self._counted_at >= self._probe.period_seconds - _TOLERANCE:
            self._bad, self._counted_at = self._bad + 1, now
        return False if self._bad >= self._probe.failure_threshold else None


class ProbeCallbacks(Struct, frozen=True):
    """What the probes of a container call when a result changes."""

    started: Callable[[], None]
    """The startup probe has succeeded, or there is none."""
    ready: Callable[[bool], None]
    """The readiness probe has a result."""
    unready: Callable[[str], None]
    """The readiness probe has failed, or the startup probe fails for long; the text says how."""
    unhealthy: Callable[[str, Probe], None]
    """The startup or liveness probe has failed, so the container must be restarted; the text says how."""


async def run_probes(container: Container, access: ContainerAccess, callbacks: ProbeCallbacks) -> None:
    """Run the probes of a container until cancelled. Liveness and readiness begin when the startup probe succeeds."""
    if container.startup_probe is not None:
        await _probe_startup(container.startup_probe, access, callbacks)
    callbacks.started()
    async with asyncio.TaskGroup() as group:
        if container.liveness_probe is not None:
            group.create_task(_probe_liveness(container.liveness_probe, access, callbacks))
        if container.readiness_probe is None:
            callbacks.ready(True)
        else:
            group.create_task(_probe_readiness(container.readiness_probe, access, callbacks))


async def _probe_startup(probe: Probe, access: ContainerAccess, callbacks: ProbeCallbacks) -> None:
    await asyncio.sleep(probe.initial_delay_seconds)
    began = time.monotonic()
    tally = Tally(probe, began)
    while True:
        problem = await _probe_once(probe, access)
        believed = tally.add(time.monotonic(), good=problem is None)
        if believed is True:
            return
        if believed is False:
            callbacks.unhealthy(f"the startup probe failed: {problem}", probe)
        elif time.monotonic() - began > access.patience:
            callbacks.unready(f"the startup probe does not succeed yet: {problem}")
        await asyncio.sleep(min(_STARTING_EVERY, probe.period_seconds))


async def _probe_liveness(probe: Probe, access: ContainerAccess, callbacks: ProbeCallbacks) -> None:
    await asyncio.sleep(probe.initial_delay_seconds)
    tally = Tally(probe, time.monotonic())
    while True:
        problem = await _probe_once(probe, access)
        if tally.add(time.monotonic(), good=problem is None) is False:
            callbacks.unhealthy(f"the liveness probe failed: {problem}", probe)
        await asyncio.sleep(probe.period_seconds)


async def _probe_readiness(probe: Probe, access: ContainerAccess, callbacks: ProbeCallbacks) -> None:
    await asyncio.sleep(probe.initial_delay_seconds)
    tally, was_ready = Tally(probe, time.monotonic()), False
    while True:
        problem = await _probe_once(probe, access)
        believed = tally.add(time.monotonic(), good=problem is None)
        if believed is not None:
            callbacks.ready(believed)
        if believed is False:
            callbacks.unready(f"the readiness probe failed: {problem}")
        was_ready = was_ready or believed is True
        await asyncio.sleep(probe.period_seconds if was_ready else min(_STARTING_EVERY, probe.period_seconds))


async def _probe_once(probe: Probe, access: ContainerAccess) -> str | None:
    """Return how one try of a probe failed; None: it succeeded."""
    try:
        await run_handler(probe, access, probe.timeout_seconds)
    except ProbeFailed as failure:
        return str(failure)
    return None
