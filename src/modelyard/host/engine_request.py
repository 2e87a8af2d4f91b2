"""One HTTP request to an engine on this machine, on a connection of its own.

`proxy` calls it. A session of aiohttp would do the same in three times the time: it resolves names, keeps cookies,
follows redirects and pools connections, and an engine needs none of this.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import ClientConnectionError, StreamReader, hdrs
from aiohttp.client_proto import ResponseHandler
from msgspec import Struct

from modelyard.host.engines import HOST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

Header = tuple[bytes, bytes]

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


@asynccontextmanager
async def engine_answer(
    port: int, method: str, path: str, headers: Iterable[Header], body: bytes
) -> AsyncIterator[EngineAnswer]:
    """Send a request, and yield the answer while the block lasts. `ClientError`: the engine does not answer."""
    connection = await _connected(port, has_body=method != hdrs.METH_HEAD)
    try:
        assert connection.transport
        connection.transport.write(_head(port, method, path, headers, len(body)))
        connection.transport.write(body)
        message, payload = await connection.read()
        while message.code < HTTPStatus.OK:
            message, payload = await connection.read()
        yield EngineAnswer(message.code, message.reason, message.raw_headers, payload)
    finally:
        # An engine stops to write for a client that is gone when its connection is.
        connection.close()


async def _connected(port: int, *, has_body: bool) -> ResponseHandler:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, connection = await loop.create_connection(lambda: ResponseHandler(loop), HOST, port)
    except (OSError, TimeoutError) as error:
        raise ClientConnectionError(f"the engine takes no connections: {error}") from error
    connection.set_response_params(
        skip_payload=not has_body, read_until_eof=True, auto_decompress=False, read_bufsize=_BUFFER
    )
    return connection


def _head(port: int, method: str, path: str, headers: Iterable[Header], length: int) -> bytes:
    # No connection is used twice. llama.cpp gives each one a thread, and has few: idle ones would hold up requests
    # that wait. And an engine may close an idle one as the next request is sent, which cannot be repeated safely.
    first = f"{method} {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nContent-Length: {length}\r\nConnection: close\r\n"
    return b"".join((first.encode(), *(b"%b: %b\r\n" % header for header in headers), b"\r\n"))
