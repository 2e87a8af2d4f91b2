"""The guard against SSRF: HTTP to URLs that users wrote, and to allowed addresses only, for `source_check` and `hosts`.

A user who may create a Model must not make the operator dial what only the operator can reach: other pods, the API
server, the metadata service of the cloud. So each host is looked up once, every address that it has must be allowed,
and only these are dialled; the Host header and the TLS name stay those of the URL. Redirects are followed by hand: each
hop is checked like the first, and none leads from https to http. No hop gets credentials, cookies or user-info. Time,
hops and bytes are bounded, and no proxy of the environment is used. Errors are those of `http_exchange`, and one more:

ExchangeFailed
└── NotAllowed   the address policy keeps us from dialling
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import zlib
from collections.abc import Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct
from yarl import URL

from modelyard.net.addresses import Permitted, allowed
from modelyard.net.dns import Resolve
from modelyard.net.http_exchange import BODY_LIMIT, ExchangeFailed, Reply, Unreadable, failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.net.addresses import Address

MAX_REDIRECTS: Final = 5

_CONNECT_SECONDS: Final = 10.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SCHEMES: Final = frozenset({"http", "https"})


class NotAllowed(ExchangeFailed):
    """The address policy keeps us from dialling a host, or one that it redirects to."""

    def __init__(self, detail: str) -> None:
        super().__init__("leads to an address that the operator does not dial", detail)


Place = tuple[str, int]
"""The name and the port of a server."""


class Guard(Struct, frozen=True):
    """What guarded sessions share: the resolver, the addresses permitted besides public ones, and their limits."""

    resolve: Resolve
    exceptions: Permitted = Permitted()
    tls: ssl.SSLContext | None = None
    """The authorities to trust; None: those of the system."""
    seconds: float = 30.0
    """How long one session may take in all."""
    api_server: str = ""
    """The URL of the API server, which is never dialled, whatever is permitted; empty: it is not known."""
    only: Mapping[Place, str] = {}
    """The one address at which a host is dialled; others are dialled at any that answers."""


class GuardedSession:
    """Requests to URLs that users wrote, until a deadline on the loop's clock."""

    def __init__(self, session: aiohttp.ClientSession, pinned: _PinnedResolver, deadline: float) -> None:
        self._session = session
        self._pinned = pinned
        self._deadline = deadline

    @asynccontextmanager
    async def get(self, url: str, span: str = "", limit: int = BODY_LIMIT) -> AsyncIterator[Reply]:
        """Get a URL, or a span of its bytes; the reply can be read until the block ends."""
        target = _target(_parsed(url))
        for _ in range(MAX_REDIRECTS + 1):
            async with self._send(target, {"Range": span} if span else {}) as response:
                if response.status not in _REDIRECTS:
                    yield Reply(response, limit)
                    return
                target = _onward(target, response.headers.get("Location", ""))
        raise Unreadable(f"redirects more than {MAX_REDIRECTS} times", f"last to {target.host}")

    @asynccontextmanager
    async def request(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None, limit: int, server_name: str = ""
    ) -> AsyncIterator[Reply]:
        """Send one request and follow no redirect: where it leads, the headers may be none of its business.

        `server_name` is what the certificate must hold; empty: the host of the URL.
        """
        named = server_name or None
        async with self._send(_target(_parsed(url)), headers, method=method, data=body, server_hostname=named) as reply:
            yield Reply(reply, limit)

    @asynccontextmanager
    async def _send(
        self, url: URL, headers: dict[str, str], *, method: str = "GET", **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._pinned.check(url)
                sent = self._session.request(method, url, headers=headers, allow_redirects=False, **options)
                async with sent as response:
                    yield response
        except (aiohttp.ClientError, TimeoutError, OSError, zlib.error) as error:
            raise failure(error) from error


@asynccontextmanager
async def guarded_session(guard: Guard) -> AsyncIterator[GuardedSession]:
    """Open a session. Sessions share nothing, neither connections nor looked-up addresses."""
    pinned = _PinnedResolver(guard)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            ssl=guard.tls or True, resolver=pinned, use_dns_cache=False, socket_factory=pinned.open_socket
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        headers={"User-Agent": "modelyard", "Accept-Encoding": "identity"},
        auto_decompress=False,
        trust_env=False,
    ) as session:
        yield GuardedSession(session, pinned, asyncio.get_running_loop().time() + guard.seconds)


class _PinnedResolver(AbstractResolver):
    """A resolver that looks up each host once and lets sockets be opened only to addresses that were checked.

    Looked up a second time, a host could have another address than the one that was checked (DNS rebinding).
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._hosts: dict[str, tuple[Address, ...]] = {}

    async def check(self, url: URL) -> None:
        """Look up the host of a URL; `NotAllowed` if it, or any of its addresses, is."""
        host = url.raw_host or ""
        if host not in self._hosts:
            self._hosts[host] = await self._checked(host, url.port or 0)
        if await self._is_api_server(url, self._hosts[host]):
            raise NotAllowed(f"{host} is the API server")

    async def _checked(self, host: str, port: int) -> tuple[Address, ...]:
        addresses = tuple(ip_address(text) for text in await self._guard.resolve(host, port))
        refused = [str(each) for each in addresses if not allowed(each, host, self._guard.exceptions)]
        if refused:
            raise NotAllowed(f"{host} has {', '.join(refused)}")
        return addresses

    async def _is_api_server(self, url: URL, addresses: tuple[Address, ...]) -> bool:
        server = URL(self._guard.api_server)
        # By its port first: on one machine, all servers have the address of the API server.
        if not server.raw_host or server.port != url.port:
            return False
        known = await self._guard.resolve(server.raw_host, server.port or 0)
        return any(str(each) in known for each in addresses)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses that were checked, without another lookup."""
        addresses = self._hosts.get(host)
        if not addresses:
            raise OSError("this host has no address")
        only = self._guard.only.get((host, port))
        return [
            ResolveResult(hostname=host, host=str(each), port=port, family=family, proto=0, flags=0)
            for each in addresses
            if only in (None, str(each))
        ]

    def open_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """Open a socket for an address. All connections come through here, those that need no lookup too."""
        family, kind, protocol, _, where = address
        if not any(ip_address(where[0]) in addresses for addresses in self._hosts.values()):
            raise OSError("this address was not checked")
        return socket.socket(family, kind, protocol)

    async def close(self) -> None:
        """Nothing is kept open."""


def _parsed(text: str) -> URL:
    # Kept as it is spelled where that can be sent: another spelling breaks a signature.
    spelled = text.isascii() and text.isprintable() and " " not in text
    try:
        url = URL(text, encoded=spelled)
        _ = url.port  # looked at only when it is asked for
    except ValueError as error:
        raise Unreadable("does not lead to a valid URL", str(error)) from error
    return url


def _target(url: URL) -> URL:
    """Return a URL that can be requested, without its user-info, which would become a header."""
    if url.scheme not in _SCHEMES or not url.raw_host:
        raise Unreadable("does not lead to an http or https URL", f"scheme {url.scheme[:64]!r}")
    return url.with_user(None)


def _onward(url: URL, location: str) -> URL:
    """Return where a redirect leads."""
    target = _target(url.join(_parsed(location)))
    if url.scheme == "https" and target.scheme == "http":
        raise Unreadable("redirects from https to http", f"to {target.host}")
    return target
