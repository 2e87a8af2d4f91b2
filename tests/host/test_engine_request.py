"""One request to an engine, against servers that answer byte by byte as they are told."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientConnectionError, ClientError, ClientPayloadError
from aiohttp.http_exceptions import HttpProcessingError

from modelyard.host.engine_request import engine_answer
from modelyard.local.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OK = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def engine(answer: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Answer every request with these bytes, and then close; yields the port, and what was asked."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head + await reader.readexactly(4))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    async with server:
        yield server.sockets[0].getsockname()[1], asked


async def read(port: int, method: str = "POST") -> tuple[int, int | None, bytes]:
    async with engine_answer(port, method, "/v1/x?y=1", [(b"X-One", b"1")], b"body") as answer:
        return answer.status, answer.length, await answer.body.read()


async def test_a_request_is_sent_whole_and_says_that_it_is_the_last_of_its_connection() -> None:
    async with engine(OK + b"Content-Length: 0\r\n\r\n") as (port, asked):
        await read(port)
    head = f"POST /v1/x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 4\r\nConnection: close\r\nX-One: 1"
    assert asked == [f"{head}\r\n\r\nbody".encode()]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(OK + b"Content-Length: 2\r\n\r\nhi", (200, 2, b"hi"), id="of a length"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", (200, None, b"hi"), id="in chunks"
        ),
        pytest.param(OK + b"\r\nhi", (200, None, b"hi"), id="until the connection ends"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", (204, None, b""), id="without a body"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno",
            (503, 2, b"no"),
            id="after a word in between",
        ),
    ],
)
async def test_an_answer_is_read_however_its_end_is_told(
    answer: bytes, expected: tuple[int, int | None, bytes]
) -> None:
    async with engine(answer) as (port, _):
        assert await read(port) == expected


async def test_the_answer_to_head_has_a_length_and_no_body() -> None:
    async with engine(OK + b"Content-Length: 7\r\n\r\n") as (port, _):
        assert await read(port, "HEAD") == (200, 7, b"")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(b"", ClientError, id="nothing"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", HttpProcessingError, id="no HTTP"),
        pytest.param(OK + b"Content-Length: 9\r\n\r\nhi", ClientPayloadError, id="a body that is cut"),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nhi", ClientPayloadError, id="a chunk that is cut"),
    ],
)
async def test_an_answer_that_is_none_is_an_error(answer: bytes, error: type[Exception]) -> None:
    async with engine(answer) as (port, _):
        with pytest.raises(error):
            await read(port)


async def test_an_engine_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ClientConnectionError, match="takes no connections"):
        await read(free_ports(1)[0])
