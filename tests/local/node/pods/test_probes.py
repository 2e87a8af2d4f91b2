"""How a probe failed is told in words."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest

from modelyard.local.node.pods.probes import ContainerAccess, ProbeFailed, run_handler
from modelyard.local.node.podspec import Action, Exec, Header, HttpGet, TcpSocket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[int]:
    """Answer every request with these bytes, and close the connection; yield the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def failure(action: Action, folder: Path) -> str:
    async with aiohttp.ClientSession() as session:
        access = ContainerAccess(session, "127.0.0.1", None, (), {}, str(folder), str)
        with pytest.raises(ProbeFailed) as failed:
            await run_handler(action, access, 5)
    return str(failed.value)


@pytest.mark.parametrize(
    ("answer", "scheme", "words"),
    [
        (b"", "HTTP", "port {} closed the connection without an answer"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "HTTP", "port {} does not speak HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTPS", "port {} does not speak TLS"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "HTTP", "HTTP 503"),
    ],
)
async def test_a_server_that_answers_otherwise(answer: bytes, scheme: str, words: str, tmp_path: Path):
    async with answering(answer) as port:
        assert await failure(Action(http_get=HttpGet(port, scheme=scheme)), tmp_path) == words.format(port)


async def test_a_port_that_nothing_listens_on(tmp_path: Path):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        words = f"nothing listens on port {port}"
        assert await failure(Action(http_get=HttpGet(port)), tmp_path) == words
        assert await failure(Action(tcp_socket=TcpSocket(port)), tmp_path) == words


async def test_a_command_that_does_not_exist(tmp_path: Path):
    missing = tmp_path / "missing"
    assert await failure(Action(exec=Exec((str(missing),))), tmp_path) == f"{missing}: No such file or directory"


async def test_what_no_request_can_be_made_of(tmp_path: Path):
    headers = (Header("Authorization", "Bearer x\n"),)
    async with answering(b"") as port:
        for action in (
            Action(http_get=HttpGet(port, http_headers=headers)),
            Action(tcp_socket=TcpSocket(port, "a" * 64)),
        ):
            assert (await failure(action, tmp_path)).startswith("it cannot be carried out as it is written: ")
