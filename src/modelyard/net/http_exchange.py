"""HTTP with a server that may be slow, broken or hostile, for `mcp`; `ssrf_guard` shares its replies and errors.

A conversation is one connection to one Service. Every part of it is bounded: time, bytes on the wire, bytes after
unpacking, redirects (none). It carries no cookies, no credentials and no proxy settings. What bodies mean is left to
the caller.

ExchangeFailed
├── NoAnswer     nothing listens there, or the connection broke before the answer was complete
├── Distrusted   the server does not present the certificate that we expect
└── Unreadable   it answered with something that cannot, or will not, be read
    └── TooLong  it answered with more than is read

The text of an error is uniform and may be shown to users: it does not tell a closed port from a filtered one. What
happened exactly is in `detail`, which is for the log only.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
from yarl import URL

from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.errors import ModelyardError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

BODY_LIMIT: Final = 256 * 1024
CONNECT_SECONDS: Final = 5.0

_GZIP: Final = 16 + zlib.MAX_WBITS
# OpenSSL's verify codes for a certificate outside its dates.
_OUT_OF_DATE: Final = frozenset({9, 10})

Locate = Callable[[ServiceAddress], tuple[str, int]]
"""Returns the host and port to dial for a Service. The Host header and the TLS name stay those of the Service."""


def in_cluster(address: ServiceAddress) -> tuple[str, int]:
    """Return the ClusterIP of a Service, which needs no DNS, or its name if it has none."""
    return address.ip or address.host, address.port


class ExchangeFailed(ModelyardError):
    """No usable answer came. The text is for users, `detail` for the log."""

    def __init__(self, text: str, detail: str) -> None:
        super().__init__(text)
        self.detail = detail


class NoAnswer(ExchangeFailed):
    """Nothing listens there, or the connection broke before the answer was complete."""

    def __init__(self, detail: str) -> None:
        super().__init__("did not answer", detail)


class Distrusted(ExchangeFailed):
    """The server does not present the certificate that we expect."""

    def __init__(self, detail: str, *, out_of_date: bool) -> None:
        wrong = "a certificate outside its dates" if out_of_date else "another certificate than expected"
        super().__init__(f"presents {wrong}", detail)
        self.out_of_date = out_of_date


class Unreadable(ExchangeFailed):
    """The server answered with something that cannot, or will not, be read."""


class TooLong(Unreadable):
    """The server answered with more than is read."""


class Reply:
    """The answer to one request. Its body is read once, as a whole or in chunks, and only up to a limit."""

    def __init__(self, response: aiohttp.ClientResponse, limit: int = BODY_LIMIT) -> None:
        self._response = response
        self._limit = limit

    @property
    def status(self) -> int:
        """The HTTP status code."""
        return self._response.status

    @property
    def content_type(self) -> str:
        """The media type without its parameters."""
        return self._response.content_type

    def header(self, name: str) -> str:
        """Return one header, empty when it is absent."""
        return self._response.headers.get(name, "")

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the unpacked body as it comes, and raise `TooLong` at the limit."""
        unpack = _unpacker(self.header("Content-Encoding").strip().lower())
        packed = unpacked = 0
        async for chunk in self._response.content.iter_any():
            packed += len(chunk)
            # One more than allowed is enough to know; a bomb is never unpacked further than that.
            piece = unpack(chunk, self._limit - unpacked + 1)
            unpacked += len(piece)
            if max(packed, unpacked) > self._limit:
                raise TooLong(f"answers with more than {self._limit // 1024} KiB", f"{packed} bytes came")
            yield piece


class Conversation:
    """Requests to one path of one Service, over one connection, until a deadline on the loop's clock."""

    def __init__(self, session: aiohttp.ClientSession, url: URL, name: ServiceAddress, deadline: float) -> None:
        self._session = session
        self._url = url
        self._name = name
        self.deadline = deadline

    @asynccontextmanager
    async def send(self, method: str, headers: Mapping[str, str], body: bytes | None = None) -> AsyncIterator[Reply]:
        """Send one request; the reply can be read until the block ends."""
        named = {**headers, "Host": f"{self._name.host}:{self._name.port}", "Accept-Encoding": "identity"}
        try:
            async with (
                asyncio.timeout_at(self.deadline),
                self._session.request(
                    method, self._url, data=body, headers=named, allow_redirects=False, server_hostname=self._name.host
                ) as response,
            ):
                yield Reply(response)
        except (aiohttp.ClientError, TimeoutError, OSError, zlib.error) as error:
            raise failure(error) from error


@asynccontextmanager
async def conversation(
    service: ServiceAddress, path: str, where: Locate, tls: ssl.SSLContext | None, deadline: float
) -> AsyncIterator[Conversation]:
    """Open a connection to a Service for as long as the block lasts.

    Connections are never shared or kept. One left over from an earlier check could lead to a pod of an older roll-out,
    and two connections of one conversation to two different pods.
    """
    host, port = where(service)
    root = URL.build(scheme="https" if tls else "http", host=host, port=port)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=1, ssl=tls or True, use_dns_cache=False),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        headers={"User-Agent": "modelyard"},
        auto_decompress=False,
    ) as session:
        # The slash ends the authority, so no path can name another host.
        yield Conversation(session, URL(f"{root.origin()}/{path.removeprefix('/')}"), service, deadline)


def _unpacker(encoding: str) -> Callable[[bytes, int], bytes]:
    if encoding in ("", "identity"):
        return lambda chunk, _: chunk
    if encoding in ("gzip", "x-gzip"):
        return zlib.decompressobj(_GZIP).decompress
    raise Unreadable("answers in an encoding that was not asked for", f"Content-Encoding {encoding[:64]!r}")


def failure(error: Exception) -> ExchangeFailed:
    """Return what an error of aiohttp, of a socket or of zlib means."""
    detail = f"{type(error).__name__}: {error}"
    match error:
        case aiohttp.ClientConnectorCertificateError():
            code = getattr(error.certificate_error, "verify_code", 0)
            return Distrusted(detail, out_of_date=code in _OUT_OF_DATE)
        case aiohttp.ClientConnectorSSLError():
            return Unreadable("does not speak TLS 1.2 or newer", detail)
        case aiohttp.ClientResponseError():
            # Its text holds the URL, and a URL may hold a signature.
            return Unreadable("does not speak HTTP", f"{type(error).__name__}: {error.message}")
        case zlib.error():
            return Unreadable("answers with broken gzip", detail)
        case _:
            return NoAnswer(detail)
