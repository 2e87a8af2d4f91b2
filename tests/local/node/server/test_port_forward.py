"""`kubectl port-forward` reaches the pod and nothing else, with many connections at a time, and each to its end."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from modelyard.local.node.proxy.addresses import PodAddress
from modelyard.local.node.server import spdy
from modelyard.local.node.server.port_forward import PROTOCOL, forward_ports
from tests.local.node.server.kubelet import SECONDS, Node, connected_as
from tests.local.node.server.test_spdy import Peer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import aiohttp

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HOST = "127.97.200.200"
LISTENS = re.compile(rb"Forwarding from 127.0.0.1:(\d+) -> ")


@asynccontextmanager
async def pod_server(node: Node, serve: Serve) -> AsyncIterator[int]:
    """Serve at the address of the pods of a node, on any port."""
    server = await asyncio.start_server(serve, HOST, 0)
    node.reachable = PodAddress(HOST, None, "240.97.200.200")
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def forwarding(node: Node, port: int) -> AsyncIterator[tuple[int, asyncio.subprocess.Process]]:
    """Run `kubectl port-forward` to a port of a pod; yields the local port."""
    pod = await node.add_running_pod()
    process = await node.kubectl("port-forward", pod, f":{port}")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            said = LISTENS.match(await process.stdout.readline())
            assert said, (await process.communicate())[1].decode()
            yield int(said[1]), process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def talk(port: int, *pieces: bytes) -> bytes:
    """Send pieces, half-close, and return the whole answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read to the end, then send it all back: only a half-close lets it answer."""
    writer.write((await reader.read()).upper())
    writer.close()
    await writer.wait_closed()


async def test_many_connections_at_once_each_get_their_own_answer_after_a_half_close(node: Node) -> None:
    async with pod_server(node, shout) as port, forwarding(node, port) as (local, _):
        texts = [f"caller {number} ".encode() * 20_000 for number in range(40)]
        answers = await asyncio.gather(*(talk(local, text[:100], text[100:]) for text in texts))
        assert answers == [text.upper() for text in texts]


async def test_a_stream_arrives_piece_by_piece(node: Node) -> None:
    go_on = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"first\n")
        await go_on.wait()
        writer.write(b"x" * 3_000_000 + b"\nlast\n")
        await writer.drain()
        writer.close()

    async with pod_server(node, serve) as port, forwarding(node, port) as (local, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        assert await reader.readline() == b"first\n"
        go_on.set()
        assert await reader.read() == b"x" * 3_000_000 + b"\nlast\n"
        writer.close()


async def test_a_client_that_leaves_closes_the_connection_to_the_pod(node: Node) -> None:
    begun: asyncio.Queue[bytes] = asyncio.Queue()
    ended: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await begun.put(await reader.read(1))
        await ended.put(await reader.read())
        writer.close()

    async with pod_server(node, serve) as port, forwarding(node, port) as (local, process):
        for leave in ("close", "abort", "kubectl"):
            _, writer = await asyncio.open_connection("127.0.0.1", local)
            writer.write(b"x")
            assert await begun.get() == b"x"
            match leave:
                case "close":
                    writer.close()
                case "abort":
                    writer.transport.abort()
                case "kubectl":
                    process.terminate()
            assert await ended.get() == b""
            writer.close()


async def test_a_slow_pod_holds_up_only_its_own_callers_for_as_long_as_they_send_little(node: Node) -> None:
    go_on = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (await reader.readline()) == b"slow\n":
            await go_on.wait()
        await shout(reader, writer)

    async with pod_server(node, serve) as port, forwarding(node, port) as (local, _):
        slow = asyncio.create_task(talk(local, b"slow\n", b"x" * 500_000))
        assert await talk(local, b"fast\n", b"y") == b"Y"
        go_on.set()
        assert await slow == b"X" * 500_000


async def test_a_port_without_a_server_is_told(node: Node) -> None:
    async with pod_server(node, shout) as port:
        pass
    async with forwarding(node, port) as (local, process):
        assert await talk(local, b"hello") == b""
        assert process.stderr is not None
        told = (await process.stderr.readline()).decode()
        assert f"port {port} of the pod cannot be reached" in told


async def test_a_pod_that_the_node_does_not_know_is_told(node: Node) -> None:
    pod = await node.add_running_pod()
    node.pods.clear()
    process = await node.kubectl("port-forward", pod, ":80")
    async with asyncio.timeout(SECONDS):
        _, complaint = await process.communicate()
    assert process.returncode == 1
    assert f'the node does not run pod "{pod}" yet; try again in a moment' in complaint.decode()


async def test_an_old_kubectl_is_told_what_to_use(node: Node) -> None:
    async with pod_server(node, shout):
        pod = await node.add_running_pod()
        process = await node.kubectl("port-forward", pod, ":80", KUBECTL_PORT_FORWARD_WEBSOCKETS="false")
        async with asyncio.timeout(SECONDS):
            _, complaint = await process.communicate()
    assert "this kubectl is too old for one machine" in complaint.decode()


async def test_a_pod_that_reads_nothing_does_not_hold_up_the_others_for_ever() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await stuck.wait()
        writer.close()

    async def forward(request: web.Request) -> web.StreamResponse:
        return await forward_ports(request, PodAddress(HOST, None, "240.97.200.200"), patience=0.5)

    stuck, peer = asyncio.Event(), Peer()
    application = web.Application()
    application.router.add_get("/", forward)
    async with await asyncio.start_server(serve, HOST, 0) as server, TestClient(TestServer(application)) as client:
        port = {"port": str(server.sockets[0].getsockname()[1]), "requestid": "1"}
        async with client.ws_connect("/", protocols=(PROTOCOL,)) as socket, asyncio.timeout(SECONDS):
            await socket.send_bytes(peer.syn_stream(1, {**port, "streamtype": "error"}))
            await socket.send_bytes(peer.syn_stream(3, {**port, "streamtype": "data"}))
            for _ in ("error", "data"):
                await socket.receive_bytes()
            for _ in range(400):
                await socket.send_bytes(spdy.data(3, bytes(32_768)))
            [told] = spdy.FrameReader().feed(await socket.receive_bytes())
            assert isinstance(told, spdy.Data)
            assert (told.stream, told.fin, b"the pod has read nothing" in told.data) == (1, True, True)
            assert await socket.receive_bytes() == spdy.rst_stream(3)
            await socket.send_bytes(spdy.ping(1))
            assert await socket.receive_bytes() == spdy.ping(1)
        stuck.set()


@asynccontextmanager
async def tunnel(node: Node) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """Open what kubectl opens, to send what it does not."""
    pod = await node.add_running_pod()
    async with connected_as(node, "modelyard-apiserver") as (session, context):
        path = f"/portForward/default/{pod}"
        async with session.ws_connect(path, ssl=context, protocols=(PROTOCOL,)) as socket:
            assert socket.protocol == PROTOCOL
            yield socket


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"port": "80"},
        *({"port": port, "streamtype": "data"} for port in ("", "0", "-1", "http", "65536", "8" * 5000)),
    ],
)
async def test_a_stream_that_names_no_port_is_refused(node: Node, headers: dict[str, str]) -> None:
    async with pod_server(node, shout), tunnel(node) as socket:
        await socket.send_bytes(Peer().syn_stream(1, headers))
        async with asyncio.timeout(SECONDS):
            assert await socket.receive_bytes() == spdy.rst_stream(1)


async def test_pings_are_answered_and_a_client_that_speaks_no_spdy_is_left(node: Node) -> None:
    async with pod_server(node, shout), tunnel(node) as socket:
        await socket.send_bytes(spdy.ping(1))
        async with asyncio.timeout(SECONDS):
            assert await socket.receive_bytes() == spdy.ping(1)
            await socket.send_bytes(b"\x80\x02" + bytes(6))
            assert (await socket.receive()).data == 1002
