"""The transport below the client: two methods, and one implementation over aiohttp.

A transport knows HTTP and credentials. It does not know what an answer means: every status is returned as it is, and
only the absence of a complete answer is an error (`Unavailable`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlencode

import aiohttp
from msgspec import Struct
from yarl import URL

from modelyard import __version__
from modelyard.kube.errors import NoCredentials, Unavailable, quoted
from modelyard.kube.tls import certificates, show_certificate, tls_context

if TYPE_CHECKING:
    import ssl

    from modelyard.kube.connection import Connection
    from modelyard.kube.credentials import Identity

REQUEST_TIMEOUT: Final = 30.0

_TLS_SETTINGS: Final = re.compile(r" ssl:(<[^>]*>|\S+)")
_CONNECT_TIMEOUT: Final = 10.0
_CONNECTIONS: Final = 64
# The API server closes connections that were idle for 90 s. If we did not close them first, a request could be lost
# in one that is just being closed.
_KEEP_ALIVE: Final = 60.0
# etcd stores no object above a few MiB. A longer line is no event, and would only fill our memory.
_LONGEST_LINE: Final = 32 * 1024 * 1024

_HEADERS: Final = {
    "Accept": "application/json, */*",
    # Packing costs the server more time than our side of the network saves.
    "Accept-Encoding": "identity",
    "User-Agent": f"modelyard/{__version__}",
}

Query = Mapping[str, str]


class Response(Struct, frozen=True):
    """A response that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Struct, frozen=True):
    """An answer that goes on: its lines come as the server sends them, without their ends."""

    status: int
    headers: Mapping[str, str]
    lines: AsyncIterator[bytes]


class Transport(Protocol):
    """Carries requests to one API server, as an http.RoundTripper does in client-go."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = REQUEST_TIMEOUT,  # noqa: ASYNC109 - it also decides whether the request was sent
    ) -> Response:
        """Return the answer, whatever its status; `Unavailable` when there is none."""

    def stream(
        self, path: str, *, query: Query, idle: float, body: bytes | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a stream that may last for ever, but must not be silent for longer than `idle` seconds.

        With a body it is a POST of JSON: a question to a server behind the proxy of the API server.
        """

    async def close(self) -> None:
        """Close all connections."""


class _Ask(Struct, frozen=True):
    """One request, ready to be sent, or sent again."""

    method: str
    url: URL
    body: bytes | None
    content_type: str
    limits: aiohttp.ClientTimeout


class _AnswerLost(aiohttp.ClientError):
    """The connection broke after the request was on its way."""


async def _never_twice(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a write whose answer was lost: the second answer would hide what the first did."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method == "GET":
            raise
        raise _AnswerLost(str(error)) from error


class HttpTransport:
    """Transport over aiohttp, with connections that are kept. It must be made inside a running event loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._authority = connection.authority
        # Streams stay open for minutes; from a pool of their own they can never starve the requests.
        self._requests = _session(_CONNECTIONS)
        self._streams = _session(0)
        self._tls: tuple[tuple[bytes, bytes, str], ssl.SSLContext] | None = None

    async def close(self) -> None:
        """Close all connections."""
        await self._requests.close()
        await self._streams.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = REQUEST_TIMEOUT,  # noqa: ASYNC109 - see Transport
    ) -> Response:
        """Return the answer, whatever its status; `Unavailable` when there is none."""
        # At most half of the time goes into connecting, so that a timeout of the whole means that it was sent.
        limits = aiohttp.ClientTimeout(total=timeout, connect=min(_CONNECT_TIMEOUT, timeout / 2))
        ask = _Ask(method, self._url(path, query), body, content_type, limits)
        with _explained():
            async with await self._answer(self._requests, ask) as answer:
                return Response(answer.status, answer.headers, await answer.read())

    @asynccontextmanager
    async def stream(self, path: str, *, query: Query, idle: float, body: bytes | None = None) -> AsyncIterator[Stream]:
        """Open a stream that may last for ever, but must not be silent for longer than `idle` seconds.

        With a body it is a POST of JSON.
        """
        limits = aiohttp.ClientTimeout(total=None, connect=_CONNECT_TIMEOUT, sock_read=idle)
        method = "GET" if body is None else "POST"
        ask = _Ask(method, self._url(path, query), body, "application/json", limits)
        with _explained():
            answer = await self._answer(self._streams, ask)
        async with answer, aclosing(_lines(answer)) as lines:
            yield Stream(answer.status, answer.headers, lines)

    async def _answer(self, session: aiohttp.ClientSession, ask: _Ask) -> aiohttp.ClientResponse:
        """Send a request; if the server does not know us any more, once again with renewed credentials."""
        credentials = self._connection.credentials
        identity = await credentials.current()
        try:
            answer = await self._send(session, ask, identity)
        except aiohttp.ClientConnectorCertificateError:
            await self._read_authority_again()
            raise
        if answer.status != 401:
            return answer
        await answer.read()
        credentials.rejected(identity)
        return await self._send(session, ask, await credentials.current())

    async def _read_authority_again(self) -> None:
        """Read the CA file again: the CA of the cluster may have been rotated. What cannot be read changes nothing."""
        if file := self._connection.authority_file:
            with suppress(OSError, UnicodeDecodeError):
                self._authority = certificates(await asyncio.to_thread(file.read_text))

    async def _send(self, session: aiohttp.ClientSession, ask: _Ask, identity: Identity) -> aiohttp.ClientResponse:
        headers = {"Content-Type": ask.content_type} if ask.body is not None else {}
        if identity.token:
            headers["Authorization"] = _bearer(identity.token)
        return await session.request(
            ask.method,
            ask.url,
            data=ask.body,
            headers=headers,
            timeout=ask.limits,
            # A redirect would carry our token to another server.
            allow_redirects=False,
            ssl=self._context(identity),
            server_hostname=self._connection.server_name or None,
        )

    def _url(self, path: str, query: Query | None) -> URL:
        asked = f"?{urlencode(query)}" if query else ""
        return URL(f"{self._connection.server}{path}{asked}", encoded=True)

    def _context(self, identity: Identity) -> ssl.SSLContext | bool:
        if self._connection.server.startswith("http://"):
            return True
        shown = (identity.certificate, identity.key, self._authority)
        if self._tls is None or self._tls[0] != shown:
            context = tls_context(self._authority, self._connection.verify)
            if identity.certificate:
                show_certificate(context, identity)
            # aiohttp keeps connections per context: those made with an old certificate are not used again.
            self._tls = shown, context
        return self._tls[1]


async def _lines(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    # aiohttp's own line reader gives up above a fixed length, and events may be longer than any we would choose.
    pending: list[bytes] = []
    with _explained():
        async for chunk in answer.content.iter_any():
            start, *others = chunk.split(b"\n")
            pending.append(start)
            for following in others:
                yield b"".join(pending)
                pending = [following]
            if sum(map(len, pending)) > _LONGEST_LINE:
                raise Unavailable(0, "LineTooLong", "the server sent a line that does not end")
    if rest := b"".join(pending):
        yield rest


def _bearer(token: str) -> str:
    if not token.isprintable():
        raise NoCredentials("the token holds a line break or a control character")
    return f"Bearer {token}"


def _session(connections: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=connections, keepalive_timeout=_KEEP_ALIVE, resolver=aiohttp.ThreadedResolver()
        ),
        headers=_HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(_never_twice,),
    )


@contextmanager
def _explained() -> Iterator[None]:
    """Turn what aiohttp raises into `Unavailable`, which says whether the request may have been carried out."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        # Text of OpenSSL, such as "certificate has expired"; aiohttp's own is the name of a class with its arguments.
        why = getattr(error.certificate_error, "verify_message", "") or "it cannot be verified"
        told = f"the certificate of {error.host}:{error.port} is not accepted: {why}"
        raise Unavailable(0, "NotReached", f"the API server cannot be reached: {told}") from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        # The TLS settings would be shown by their address in memory: another text from each process.
        told = _TLS_SETTINGS.sub("", str(error))
        raise Unavailable(0, "NotReached", f"the API server cannot be reached: {told}") from error
    except TimeoutError as error:
        raise Unavailable(0, "Timeout", "the API server did not answer in time", uncertain=True) from error
    except (aiohttp.ClientError, OSError) as error:
        message = f"the connection to the API server broke: {_broken(error)}"
        raise Unavailable(0, "ConnectionLost", message, uncertain=True) from error


def _broken(error: Exception) -> str:
    """Return how a connection broke, in words: aiohttp quotes its own classes, and what a server sends."""
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer is not complete"
    if isinstance(error, aiohttp.ClientResponseError):
        return "what it sends is not HTTP"
    return quoted(str(error))
