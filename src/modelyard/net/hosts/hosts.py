"""Answers `HostProbe`, and makes `LoadModel` and `UnloadModel`: credentials, addresses and limits for all dialects.

`app.py` makes one `Hosts` and registers its methods with the two pollers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from math import inf
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from modelyard.core.checks import Answer
from modelyard.core.conditions import Problem
from modelyard.core.hosts import HostReport, LoadModel, Protocol, SecretKey, UnloadModel
from modelyard.core.reasons import Reason
from modelyard.net.addresses import allowed
from modelyard.net.hosts import inferenced, llamacpp, ollama
from modelyard.net.hosts.http import HostHttp
from modelyard.net.hosts.verdicts import MISSING, HostFailed, failed, trouble
from modelyard.net.http_exchange import ExchangeFailed, NoAnswer
from modelyard.net.ssrf_guard import NotAllowed, Place, guarded_session
from modelyard.net.tls_trust import NoCertificate, authority_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from modelyard.core.hosts import HostAddress, HostedModel, HostProbe
    from modelyard.net.ssrf_guard import Guard

ReadSecret = Callable[[str, SecretKey], Awaitable[str]]
"""Returns a value of a Secret in a namespace. `HostFailed`: it is not there, or cannot be read now."""

PROBE_SECONDS: Final = 3.0
CALL_SECONDS: Final = 10.0

DELETED_SECONDS: Final = 120.0
"""How long a Secret that was deleted is still used: for the drain of a model, and its unload."""

_MOST_REMEMBERED: Final = 4096
_TURN_AFTER: Final = 2
"""So many misses in a row: one less than it takes the poller to call a host unreachable."""
_STEADY: Final = 256 * 1024 * 1024

_log = structlog.get_logger(__name__)


class Dialect(Struct, frozen=True):
    """How hosts of one protocol are talked to."""

    probe: Callable[[HostHttp], Awaitable[HostReport]]
    load: Callable[[HostHttp, LoadModel], Awaitable[Answer]]
    unload: Callable[[HostHttp, UnloadModel], Awaitable[Answer]]
    fetch: Callable[[HostHttp, LoadModel], Awaitable[Answer]] | None = None
    """How a host is asked for a model that is `MISSING` there; None: that is part of a load."""
    load_seconds: float = CALL_SECONDS
    """How long a load, or a fetch, may take to be accepted."""


DIALECTS: Final = {
    Protocol.INFERENCED: Dialect(inferenced.probe, inferenced.load, inferenced.unload),
    Protocol.OLLAMA: Dialect(ollama.probe, ollama.load, ollama.unload, ollama.fetch, load_seconds=1800.0),
    Protocol.LLAMACPP: Dialect(llamacpp.probe, llamacpp.load, llamacpp.unload),
}


class Hosts:
    """Talks to hosts. It remembers the addresses of each, which of them is used, its Secrets and the last free memory.

    A name may have several addresses, of one machine or of several. One of them is probed, called and published, and
    another takes its place when it does not answer: what is said of a host is true of where its requests go.
    """

    def __init__(self, guard: Guard, read_secret: ReadSecret, clock: Callable[[], float] = time.monotonic) -> None:
        self._guard, self._read_secret, self._clock = guard, read_secret, clock
        # By name and port: of two daemons on one machine, one may listen on IPv6 only, or not at all.
        self._addresses: dict[Place, tuple[str, ...]] = {}
        self._used: dict[Place, str] = {}
        self._missed: dict[Place, int] = {}
        self._secrets: dict[tuple[str, SecretKey], tuple[str, float]] = {}
        self._free: dict[str, tuple[tuple[HostedModel, ...], int]] = {}
        self._busy: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def probe(self, check: HostProbe) -> Answer:
        """Return what a host says of itself, or why it cannot be used."""
        return await self._attempt(check.host, PROBE_SECONDS, lambda http: self._report(check.host, http))

    async def load(self, call: LoadModel) -> Answer:
        """Have a host load a model, and fetch it before if that is a step of its own."""
        dialect = DIALECTS[call.host.protocol]
        seconds, fetch = dialect.load_seconds, dialect.fetch
        answer = await self._change(call.host, seconds, lambda http: dialect.load(http, call))
        if fetch is None or not answer.value.get(MISSING):
            return answer
        # Beside other changes: it takes no memory, and the unload of another model must not wait for half an hour.
        fetched = await self._attempt(call.host, seconds, lambda http: fetch(http, call))
        return await self._change(call.host, seconds, lambda http: dialect.load(http, call)) if fetched.ok else fetched

    async def unload(self, call: UnloadModel) -> Answer:
        """Have a host unload a model."""
        dialect = DIALECTS[call.host.protocol]
        return await self._change(call.host, CALL_SECONDS, lambda http: dialect.unload(http, call))

    async def _change(self, host: HostAddress, seconds: float, send: Callable[[HostHttp], Awaitable[Answer]]) -> Answer:
        # One change at a time: two loads side by side would both find the same memory free.
        lock = self._busy.setdefault(host.endpoint, asyncio.Lock())
        async with lock:
            return await self._attempt(host, seconds, send)

    async def _attempt(
        self, host: HostAddress, seconds: float, send: Callable[[HostHttp], Awaitable[Answer]]
    ) -> Answer:
        place = _place(host.endpoint)
        try:
            async with self._connected(host, seconds) as http:
                answer = await send(http)
        except HostFailed as failure:
            return failed(failure.problem)
        except ExchangeFailed as failure:
            _log.debug("a host did not answer", endpoint=host.endpoint, detail=failure.detail)
            if isinstance(failure, NoAnswer):
                self._miss(place)
            return failed(trouble(failure))
        self._missed.pop(place, None)
        return answer

    @asynccontextmanager
    async def _connected(self, host: HostAddress, seconds: float) -> AsyncIterator[HostHttp]:
        token = _token(await self._secret(host.namespace, host.token)) if host.token else ""
        guard = replace(self._guard, resolve=self._resolve, tls=await self._tls(host), seconds=seconds, only=self._used)
        async with guarded_session(guard) as session:
            yield HostHttp(session, host.endpoint, token, host.server_name)

    async def _tls(self, host: HostAddress) -> ssl.SSLContext | None:
        if host.authority is None:
            return self._guard.tls
        pem = await self._secret(host.namespace, host.authority)
        try:
            return authority_context(pem)
        except NoCertificate as error:
            wrong = f"the key {host.authority.key} of Secret {host.authority.name} holds no usable certificate"
            raise HostFailed(Problem(Reason.SECRET_KEY_MISSING, wrong, "put a CA certificate in PEM there")) from error

    async def _secret(self, namespace: str, wanted: SecretKey) -> str:
        """Return a value of a Secret, or that of before if the Secret was deleted lately.

        With a namespace its Secrets go at once, and its hosts have to be asked to unload what they have for it.
        """
        try:
            value = await self._read_secret(namespace, wanted)
        except HostFailed as failure:
            value, read_at = self._secrets.get((namespace, wanted), ("", -inf))
            if failure.problem.reason is not Reason.SECRET_NOT_FOUND or self._clock() - read_at > DELETED_SECONDS:
                raise
        else:
            _remember(self._secrets, (namespace, wanted), (value, self._clock()))
        return value

    async def _report(self, host: HostAddress, http: HostHttp) -> Answer:
        report = await DIALECTS[host.protocol].probe(http)
        known = replace(report, addresses=self._published(host), free=self._steady(host, report))
        return Answer(True, Reason.ANSWERED, "the host answers", msgspec.to_builtins(known))

    async def _resolve(self, name: str, port: int) -> tuple[str, ...]:
        """Return the addresses of a host, or those from before while its name server does not answer."""
        try:
            found = tuple(sorted(map(_spelled, await self._guard.resolve(name, port)), key=_worth))
        except OSError:
            if (name, port) not in self._addresses:
                raise
            return self._addresses[name, port]
        _remember(self._addresses, (name, port), found)
        if found and self._used.get((name, port)) not in found:
            _remember(self._used, (name, port), found[0])
        return found

    def _miss(self, place: Place) -> None:
        """Count a request that was not answered, and turn to the next address before the host counts as gone."""
        known, used = self._addresses.get(place, ()), self._used.get(place)
        _remember(self._missed, place, self._missed.get(place, 0) + 1)
        if used in known and self._missed[place] >= _TURN_AFTER:
            del self._missed[place]
            self._used[place] = known[(known.index(used) + 1) % len(known)]

    def _published(self, host: HostAddress) -> tuple[str, ...]:
        """Return where pods reach a host. An address beside that of the URL has to be allowed as well.

        Otherwise a user could have the Service of a model lead to anything that pods of the cluster reach.
        """
        if not host.published:
            used = self._used.get(_place(host.endpoint))
            return (used,) if used else ()
        if not allowed(ip_address(host.published), host.published, self._guard.exceptions):
            raise NotAllowed(f"spec.address is {host.published}")
        return (host.published,)

    def _steady(self, host: HostAddress, report: HostReport) -> int | None:
        """Return the free memory, or that of before if it differs by little: each change is a write to the status.

        With other models it is news in any case, and written with them: a small model that goes may make all the room
        that another one lacks.
        """
        if report.free is None:
            return None
        models, before = self._free.get(host.endpoint, (None, 0))
        if models != report.models or abs(report.free - before) >= max(_STEADY, report.total // 32):
            _remember(self._free, host.endpoint, (report.models, report.free))
        return self._free[host.endpoint][1]


def _place(endpoint: str) -> Place:
    """Return the name and the port of a host, as they are resolved and dialled."""
    url = urlsplit(endpoint)
    return url.hostname or "", url.port or (443 if url.scheme == "https" else 80)


def _spelled(address: str) -> str:
    return str(ip_address(address))


def _worth(address: str) -> tuple[bool, int, int]:
    """Return the key that sorts the address first that pods reach best: IPv4, and none of this machine alone."""
    ip = ip_address(address)
    return (ip.is_loopback or ip.is_link_local, ip.version, int(ip))


def _remember(known: dict[Any, Any], key: Any, value: Any) -> None:
    known[key] = value
    if len(known) > _MOST_REMEMBERED:
        del known[next(iter(known))]


def _token(text: str) -> str:
    token = text.strip()
    if not (token.isascii() and token.isprintable()):
        raise HostFailed(
            Problem(
                Reason.SECRET_KEY_MISSING, "the token of spec.auth is not one line of ASCII", "store the token alone"
            )
        )
    return token
