"""What the tests of the handshake share: one check, and a server that answers with whatever bytes a test says."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from modelyard.core.checks.mcp_handshake import McpHandshake
from modelyard.core.checks.service_address import ServiceAddress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from modelyard.net.http_exchange import Locate

    Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

SERVICE = ServiceAddress("default", "tiny", 8080)
NAME = "tiny.default"


def check(path: str = "/mcp", timeout: float = 10.0, trust: str = "") -> McpHandshake:
    """The check, with a time limit that no friendly server comes near."""
    return McpHandshake(SERVICE, path, timeout, "revision-1", trust)


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[Locate]:
    """A listener that runs the script once for each connection; yields where it is."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
            await script(reader, writer)
        writer.close()

    server = await asyncio.start_server(play, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield lambda _: ("127.0.0.1", port)
    finally:
        server.close()


def answering(head: str, body: bytes = b"") -> Script:
    """Read one request, then send this answer."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        await writer.drain()

    return script


async def request(reader: asyncio.StreamReader) -> str:
    """Read one request and return its head."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    lengths = [line.partition(":")[2] for line in head.splitlines() if line.lower().startswith("content-length:")]
    await reader.readexactly(int(lengths[0]) if lengths else 0)
    return head
