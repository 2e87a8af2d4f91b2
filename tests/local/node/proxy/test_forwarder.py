"""A forward cannot be told from a direct connection, except that it chooses who answers."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from modelyard.local.node.proxy.addresses import HostPort
from modelyard.local.node.proxy.forwarder import AddressInUse, Forwarder
from tests.local.node.proxy.loops import on_both_loops

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_SECONDS = 90.0
_MIB = 2**20


class Server:
    """A server that counts who is connected."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.connected = self.served = 0
        self.address = HostPort("", 0)
        self.broken = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected += 1
        self.served += 1
        try:
            await self._serve(reader, writer)
        except ConnectionError:
            self.broken += 1
        finally:
            self.connected -= 1
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def _server(serve: Serve, host: str = "127.97.200.1") -> AsyncIterator[Server]:
    server = Server(serve)
    listening = await asyncio.start_server(server.handle, host, 0)
    server.address = HostPort(host, listening.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listening.close()
        async with asyncio.timeout(_SECONDS):
            while server.connected:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def _forward(*targets: HostPort) -> AsyncIterator[Forwarder]:
    forward = Forwarder([_free_place()])
    forward.set_targets(targets)
    try:
        yield forward
    finally:
        await forward.stop()


def _free_place(host: str = "127.96.200.1") -> HostPort:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return HostPort(host, probe.getsockname()[1])


@asynccontextmanager
async def _connected(forward: Forwarder) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*forward.address)
    try:
        async with asyncio.timeout(_SECONDS):
            yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


async def _until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(_SECONDS):
        while not reached():
            await asyncio.sleep(0.01)


@on_both_loops
async def test_each_chunk_arrives_before_the_next_is_sent() -> None:
    async with _server(_echo) as server, _forward(server.address) as forward, _connected(forward) as (reader, writer):
        for number in range(100):
            chunk = f"data: {number}\n\n".encode()
            writer.write(chunk)
            assert await reader.readexactly(len(chunk)) == chunk


@on_both_loops
async def test_a_server_may_speak_first() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")

    async with _server(greet) as server, _forward(server.address) as forward, _connected(forward) as (reader, _):
        assert await reader.read() == b"hello"


@on_both_loops
async def test_a_caller_who_has_said_all_still_gets_the_answer() -> None:
    async def answer_at_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.read()
        writer.write(asked[::-1])

    async with _server(answer_at_the_end) as server, _forward(server.address) as forward:
        async with _connected(forward) as (reader, writer):
            writer.write(b"abc")
            writer.write_eof()
            assert await reader.read() == b"cba"


@on_both_loops
async def test_much_data_arrives_whole_and_in_order() -> None:
    sent = bytes(range(256)) * (16 * _MIB // 256)

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()

    async with _server(send) as server, _forward(server.address) as forward, _connected(forward) as (reader, _):
        assert await reader.read() == sent


@on_both_loops
async def test_a_slow_reader_slows_the_writer_down() -> None:
    accepted = 0

    async def send_for_ever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()
            accepted += 65_536

    async with _server(send_for_ever) as server, _forward(server.address) as forward:
        caller = socket.socket()
        caller.setblocking(False)
        await asyncio.get_running_loop().sock_connect(caller, forward.address)
        before = -1
        async with asyncio.timeout(_SECONDS):
            while accepted != before or not accepted:
                before = accepted
                await asyncio.sleep(0.2)
        # What the kernel's buffers and the limits of four transports hold, and no more.
        assert accepted < 64 * _MIB
        caller.close()


@on_both_loops
async def test_two_hundred_streams_at_once_are_spread_evenly() -> None:
    _allow_files(2_000)
    begun = asyncio.Event()

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        await begun.wait()
        for number in range(20):
            writer.write(f"data: {number}\n".encode())
            await writer.drain()

    async def read(forward: Forwarder) -> int:
        async with _connected(forward) as (reader, writer):
            writer.write(b"go\n")
            return len((await reader.read()).splitlines())

    async with _server(stream) as one, _server(stream) as other, _forward(one.address, other.address) as forward:
        async with asyncio.timeout(_SECONDS), asyncio.TaskGroup() as group:
            reading = [group.create_task(read(forward)) for _ in range(200)]
            await _until(lambda: one.connected + other.connected == 200)
            assert (one.connected, other.connected) == (100, 100)
            begun.set()
        assert [task.result() for task in reading] == [20] * 200


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


@on_both_loops
async def test_a_connection_goes_to_the_target_that_has_the_fewest() -> None:
    async with _server(_echo) as one, _server(_echo) as other, _forward(one.address) as forward:
        async with _connected(forward), _connected(forward):
            await _until(lambda: one.connected == 2)
            forward.set_targets([one.address, other.address])
            async with _connected(forward), _connected(forward):
                await _until(lambda: other.connected == 2)
                assert one.connected == 2


@on_both_loops
async def test_equally_busy_targets_take_turns() -> None:
    async with _server(_echo) as one, _server(_echo) as other, _forward(one.address, other.address) as forward:
        for number in range(1, 7):
            async with _connected(forward):
                await _until(lambda number=number: one.served + other.served == number)  # type: ignore[misc]
            await _until(lambda: one.connected + other.connected == 0)
        assert (one.served, other.served) == (3, 3)


@on_both_loops
async def test_without_targets_a_caller_is_refused_at_once() -> None:
    async with _server(_echo) as server, _forward() as forward:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*forward.address)
        forward.set_targets([server.address])
        async with _connected(forward) as (reader, writer):
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
        forward.set_targets([])
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*forward.address)
        forward.set_targets([server.address])
        async with _connected(forward) as (reader, writer):
            writer.write(b"y")
            assert await reader.readexactly(1) == b"y"


@pytest.mark.parametrize("change", ["another target", "no target", "closed"])
@on_both_loops
async def test_existing_connections_go_on_when_targets_change(change: str) -> None:
    async with _server(_echo) as old, _server(_echo) as new, _forward(old.address) as forward:
        async with _connected(forward) as (reader, writer):
            writer.write(b"before")
            assert await reader.readexactly(6) == b"before"
            if change == "closed":
                forward.close()
            else:
                forward.set_targets([new.address] if change == "another target" else [])
            writer.write(b"after")
            assert await reader.readexactly(5) == b"after"
            assert (old.connected, new.connected) == (1, 0)


@on_both_loops
async def test_a_target_that_does_not_answer_is_passed_over() -> None:
    async with _server(_echo) as server, _forward(_free_place("127.97.200.2"), server.address) as forward:
        for _ in range(4):
            async with _connected(forward) as (reader, writer):
                writer.write(b"x")
                assert await reader.readexactly(1) == b"x"


@on_both_loops
async def test_a_caller_whom_no_target_answers_is_turned_away() -> None:
    async with _forward(_free_place("127.97.200.2")) as forward:
        async with _connected(forward) as (reader, _):
            with pytest.raises(ConnectionResetError):
                await reader.read()


@on_both_loops
async def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"half")
        await reader.readexactly(3)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with _server(break_off) as server, _forward(server.address) as forward:
        async with _connected(forward) as (reader, writer):
            assert await reader.readexactly(4) == b"half"
            writer.write(b"now")
            with pytest.raises(ConnectionResetError):
                await reader.read()


@on_both_loops
async def test_a_caller_who_leaves_is_noticed_by_the_server() -> None:
    async def send_for_ever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with _server(send_for_ever) as server, _forward(server.address) as forward:
        async with _connected(forward) as (reader, _):
            await reader.readexactly(1)
        await _until(lambda: server.connected == 0)
        assert server.broken == 1


@on_both_loops
async def test_stopping_breaks_what_is_connected() -> None:
    async with _server(_echo) as server, _forward(server.address) as forward, _connected(forward) as (reader, writer):
        writer.write(b"x")
        await reader.readexactly(1)
        await forward.stop()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*forward.address)


@on_both_loops
async def test_the_next_place_is_taken_when_the_first_is_busy() -> None:
    first, second = _free_place(), _free_place()
    with socket.socket() as holder:
        holder.bind(first)
        holder.listen()
        forward = Forwarder([first, second])
        assert forward.address == second
        await forward.stop()
        with pytest.raises(AddressInUse, match=rf"on {first}: Address already in use; end the program"):
            Forwarder([first])
