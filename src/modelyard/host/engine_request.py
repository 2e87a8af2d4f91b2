"""HTTP requests to engines on this machine.

`proxy` sends them. A session of aiohttp would do the same in three times the time: it resolves names, keeps cookies,
follows redirects and pools connections without end, and an engine needs none of this.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import ClientConnectionError, StreamReader, hdrs
from aiohttp.client_proto import ResponseHandler
from msgspec import Struct

from modelyard.host.engines import HOST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

Header = tuple[bytes, bytes]

IDLE_SECONDS: Final = 1.0
"""How long a connection waits for the next request: less than any engine does, so that it is not closed under one."""
_CONNECT_SECONDS: Final = 5.0
_BUFFER: Final = 2**16


class EngineAnswer(Struct, frozen=True):
    """The head of an answer, and its body as it comes."""

    status: int
    reason: str
    headers: tuple[Header, ...]
    body: StreamReader

    @property
    def length(self) -> int | None:
        """The bytes of the body; None: the engine does not say before its end."""
        said = next((value for name, value in self.headers if name.lower() == b"content-length"), None)
        return None if said is None else int(said)


class _Connection(ResponseHandler):
    """A connection to an engine, which tells when it is lost."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lost: Callable[[_Connection], None]) -> None:
        super().__init__(loop)
        self._tell_lost = lost
        self.has_answered = False

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._tell_lost(self)


class EngineConnections:
    """Connections to all engines. Of each engine, one that is idle is kept for the next request, for a moment.

    One and no more: llama.cpp gives each connection a thread, and has few, so idle ones would hold up requests.

    llama.cpp promises to keep connections, and closes each after a stream. Such a connection is replaced at once: to
    open one takes as long as all else that the daemon does before a first token.
    """

    def __init__(self) -> None:
        self._idle: dict[int, tuple[_Connection, asyncio.TimerHandle]] = {}
        self._opening: dict[int, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def answer(
        self, port: int, method: str, path: str, headers: Iterable[Header], body: bytes
    ) -> AsyncIterator[EngineAnswer]:
        """Send a request, and yield the answer while the block lasts. `ClientError`: the engine does not answer."""
        request = _head(port, method, path, headers, len(body)) + body
        has_body = method != hdrs.METH_HEAD
        connection, answer = self._take(port), None
        # By identity: a connection without messages has the length 0.
        if connection is not None:
            answer = await _exchange(connection, request, has_body=has_body)
        # It may have been closed as the request was sent, which can be sent again: to infer changes nothing.
        if connection is None or answer is None:
            connection = await self._connected(port)
            answer = await _exchange(connection, request, has_body=has_body)
        if answer is None:
            raise ClientConnectionError("the engine has closed the connection without an answer")
        try:
            yield answer
        finally:
            # An engine stops to write for a client that is gone when its connection is.
            if connection.should_close or port in self._idle:
                connection.close()
            else:
                self._keep(port, connection)

    def close(self) -> None:
        """Close all that is idle, or about to be."""
        for opening in self._opening.values():
            opening.cancel()
        for port in tuple(self._idle):
            self._expire(port)

    def _take(self, port: int) -> _Connection | None:
        connection, expiry = self._idle.pop(port, (None, None))
        if expiry is not None:
            expiry.cancel()
        return connection if connection is not None and connection.is_connected() else None

    def _keep(self, port: int, connection: _Connection) -> None:
        expiry = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._expire, port)
        self._idle[port] = connection, expiry

    def _expire(self, port: int) -> None:
        connection, expiry = self._idle.pop(port)
        expiry.cancel()
        connection.close()

    def _lost(self, port: int, connection: _Connection) -> None:
        idle, _ = self._idle.get(port, (None, None))
        # One that never answered is not replaced: an engine that takes no more requests would be called without end.
        if idle is connection and connection.has_answered:
            self._expire(port)
            self._opening[port] = self._opening.get(port) or asyncio.create_task(self._open(port))

    async def _open(self, port: int) -> None:
        try:
            connection = await self._connected(port)
            if port in self._idle:
                connection.close()
            else:
                self._keep(port, connection)
        except ClientConnectionError:
            pass  # the next request opens one, and says so
        finally:
            del self._opening[port]

    async def _connected(self, port: int) -> _Connection:
        loop = asyncio.get_running_loop()
        lost = partial(self._lost, port)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, connection = await loop.create_connection(lambda: _Connection(loop, lost), HOST, port)
        except (OSError, TimeoutError) as error:
            raise ClientConnectionError(f"the engine takes no connections: {error}") from error
        return connection


async def _exchange(connection: _Connection, request: bytes, *, has_body: bool) -> EngineAnswer | None:
    """Send a request and return its answer; None: the engine has closed the connection, and begun none."""
    connection.set_response_params(
        skip_payload=not has_body, read_until_eof=True, auto_decompress=False, read_bufsize=_BUFFER
    )
    try:
        assert connection.transport
        # In one piece: each is a system call, and wakes the engine.
        connection.transport.write(request)
        message, payload = await connection.read()
        while message.code < HTTPStatus.OK:
            message, payload = await connection.read()
    except ClientConnectionError:
        return None
    except BaseException:
        connection.close()
        raise
    connection.has_answered = True
    return EngineAnswer(message.code, message.reason, message.raw_headers, payload)


def _head(port: int, method: str, path: str, headers: Iterable[Header], length: int) -> bytes:
    first = f"{method} {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nContent-Length: {length}\r\n"
    return b"".join((first.encode(), *(b"%b: %b\r\n" % header for header in headers), b"\r\n"))
