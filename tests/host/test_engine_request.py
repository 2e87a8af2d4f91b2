"""One request to an engine, against servers that answer byte by byte as they are told."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientConnectionError, ClientError, ClientPayloadError
from aiohttp.http_exceptions import HttpProcessingError

from modelyard.host.engine_request import IDLE_SECONDS, EngineConnections
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


class KeepingEngine:
    """Answers every request with these bytes, and keeps the connection open until it is told to close it.

    With `closes` it closes it after each answer, though HTTP/1.1 promises otherwise.
    """

    def __init__(self, answer: bytes, *, closes: bool = False) -> None:
        self._answer, self._closes = answer, closes
        self.connections: list[asyncio.StreamWriter] = []
        self.requests = 0
        self.closed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        while await reader.read(2**16):
            self.requests += 1
            writer.write(self._answer)
            if self._closes:
                break
        writer.close()
        self.closed.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        async with await asyncio.start_server(self.serve, "127.0.0.1") as server:
            yield server.sockets[0].getsockname()[1]


@pytest.fixture
async def connections() -> AsyncIterator[EngineConnections]:
    connections = EngineConnections()
    yield connections
    connections.close()


async def read(connections: EngineConnections, port: int, method: str = "POST") -> tuple[int, int | None, bytes]:
    async with connections.answer(port, method, "/v1/x?y=1", [(b"X-One", b"1")], b"body") as answer:
        return answer.status, answer.length, await answer.body.read()


async def test_a_request_is_sent_whole(connections: EngineConnections) -> None:
    async with engine(OK + b"Content-Length: 0\r\n\r\n") as (port, asked):
        await read(connections, port)
    head = f"POST /v1/x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 4\r\nX-One: 1"
    assert asked == [f"{head}\r\n\r\nbody".encode()]


async def test_requests_after_one_another_share_a_connection_which_is_closed_when_it_is_idle(
    connections: EngineConnections,
) -> None:
    engine = KeepingEngine(OK + b"Content-Length: 2\r\n\r\nhi")
    async with engine.running() as port:
        for _ in range(3):
            assert await read(connections, port) == (200, 2, b"hi")
        assert (len(engine.connections), engine.requests) == (1, 3)
        async with asyncio.timeout(IDLE_SECONDS + 30):
            await engine.closed.wait()
        assert await read(connections, port) == (200, 2, b"hi")
    assert len(engine.connections) == 2


async def test_of_many_connections_only_one_is_kept(connections: EngineConnections) -> None:
    engine = KeepingEngine(OK + b"Content-Length: 2\r\n\r\nhi")
    async with engine.running() as port:
        await asyncio.gather(*(read(connections, port) for _ in range(5)))
        assert len(engine.connections) == 5
        async with asyncio.timeout(60):
            while sum(not one.is_closing() for one in engine.connections) > 1:
                await asyncio.sleep(0.01)


async def test_a_connection_that_the_engine_has_closed_meanwhile_is_replaced(connections: EngineConnections) -> None:
    engine = KeepingEngine(OK + b"Content-Length: 2\r\n\r\nhi")
    async with engine.running() as port:
        await read(connections, port)
        # It is noticed when the request is already on its way.
        engine.connections[0].transport.abort()
        assert await read(connections, port) == (200, 2, b"hi")
    assert len(engine.connections) == 2


async def test_a_connection_that_the_engine_closes_after_its_answer_is_replaced_before_the_next_request(
    connections: EngineConnections,
) -> None:
    engine = KeepingEngine(OK + b"Content-Length: 2\r\n\r\nhi", closes=True)
    async with engine.running() as port:
        for number in (1, 2):
            assert await read(connections, port) == (200, 2, b"hi")
            async with asyncio.timeout(60):
                while len(engine.connections) == number:
                    await asyncio.sleep(0.01)
        assert (len(engine.connections), engine.requests) == (3, 2)


async def test_a_replacement_that_no_request_needs_is_closed_and_not_replaced(connections: EngineConnections) -> None:
    engine = KeepingEngine(OK + b"Content-Length: 2\r\n\r\nhi", closes=True)
    async with engine.running() as port:
        await read(connections, port)
        async with asyncio.timeout(IDLE_SECONDS + 30):
            while len(engine.connections) < 2 or not all(one.is_closing() for one in engine.connections):
                await asyncio.sleep(0.01)
        # Enough for a connection that would be opened at once.
        await asyncio.sleep(0.05)
    assert len(engine.connections) == 2


async def test_a_connection_whose_answer_was_not_read_to_its_end_is_closed(connections: EngineConnections) -> None:
    engine = KeepingEngine(OK + b"Content-Length: 9\r\n\r\nhi")
    async with engine.running() as port:
        async with connections.answer(port, "POST", "/", [], b"body") as answer:
            assert await answer.body.readany() == b"hi"
        async with asyncio.timeout(60):
            await engine.closed.wait()


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
    connections: EngineConnections, answer: bytes, expected: tuple[int, int | None, bytes]
) -> None:
    async with engine(answer) as (port, _):
        assert await read(connections, port) == expected


async def test_the_answer_to_head_has_a_length_and_no_body(connections: EngineConnections) -> None:
    async with engine(OK + b"Content-Length: 7\r\n\r\n") as (port, _):
        assert await read(connections, port, "HEAD") == (200, 7, b"")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(b"", ClientError, id="nothing"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", HttpProcessingError, id="no HTTP"),
        pytest.param(OK + b"Content-Length: 9\r\n\r\nhi", ClientPayloadError, id="a body that is cut"),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nhi", ClientPayloadError, id="a chunk that is cut"),
    ],
)
async def test_an_answer_that_is_none_is_an_error(
    connections: EngineConnections, answer: bytes, error: type[Exception]
) -> None:
    async with engine(answer) as (port, _):
        with pytest.raises(error):
            await read(connections, port)


async def test_an_engine_that_is_not_there_is_an_error(connections: EngineConnections) -> None:
    with pytest.raises(ClientConnectionError, match="takes no connections"):
        await read(connections, free_ports(1)[0])
