"""`kubectl port-forward`: join the streams of a client to connections to a pod, many at a time in one WebSocket.

`kubelet_server` calls it. kubectl opens two SPDY streams for each of its connections, one for data and one for an error
message, which name the same port and request. What reaches the pod is dialled at the address of the pod and nowhere
else: other ports of this machine are no business of a user who may only reach pods.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aiohttp import WSMsgType, web
from msgspec import Struct

from modelyard.local.node.server import spdy

if TYPE_CHECKING:
    from modelyard.local.node.proxy.addresses import PodAddress

PROTOCOL: Final = "SPDY/3.1+portforward.k8s.io"
"""The WebSocket subprotocol: SPDY frames in binary messages, in pieces of any length."""
_DATA, _ERROR = "data", "error"
_NUMBER: Final = re.compile(r"[0-9]{1,5}")
_PIECE: Final = 32_768
_CONNECT_SECONDS: Final = 10.0
# Of pieces that the pod has not read yet. Beyond that all streams of the client wait: SPDY here knows no flow control.
_WAITING_PIECES: Final = 64
# A pod that reads nothing for so long loses the connection, because of the others that wait.
_PATIENCE: Final = 60.0


class _Connection(Struct, eq=False):
    """One connection of the client: its two streams, and what it has sent that the pod has not read yet."""

    port: int
    streams: dict[str, int]
    """The number of the data stream and of the error stream, by their types; the other may be still to come."""
    pieces: asyncio.Queue[bytes]
    """Of the data stream. An empty one: the client sends no more."""
    task: asyncio.Task[None] | None = None
    """Talks to the pod; None: a stream is missing."""


async def forward_ports(
    request: web.Request, address: PodAddress, *, patience: float = _PATIENCE
) -> web.StreamResponse:
    """Serve a client until it leaves, and close all its connections to the pod then.

    `patience` is how many seconds the pod may leave unread what it is sent.
    """
    socket = web.WebSocketResponse(protocols=(PROTOCOL,))
    await socket.prepare(request)
    session = _Session(socket, address, patience)
    # The client may close the WebSocket at any time.
    with suppress(ConnectionError):
        try:
            await session.run()
        except spdy.ProtocolError as error:
            await socket.close(code=1002, message=str(error).encode())
        finally:
            await session.close()
    await socket.close()
    return socket


class _Session:
    """The streams of one client."""

    def __init__(self, socket: web.WebSocketResponse, address: PodAddress, patience: float) -> None:
        self._socket, self._address, self._patience = socket, address, patience
        self._writer = spdy.FrameWriter()
        self._requests: dict[str, _Connection] = {}
        self._by_data_stream: dict[int, _Connection] = {}

    async def run(self) -> None:
        """Take frames until the client leaves."""
        reader = spdy.FrameReader()
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY:
                continue
            for frame in reader.feed(message.data):
                if isinstance(frame, spdy.GoAway):
                    return
                await self._take(frame)

    async def close(self) -> None:
        """End all connections to the pod."""
        tasks = [each.task for each in self._by_data_stream.values() if each.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, frame: spdy.Frame) -> None:
        match frame:
            case spdy.SynStream():
                await self._open(frame)
            case spdy.Data():
                await self._feed(frame)
            case spdy.RstStream():
                await self._reset(frame.stream)
            case spdy.Ping():
                await self._socket.send_bytes(spdy.ping(frame.id))

    async def _open(self, frame: spdy.SynStream) -> None:
        port, kind = _port(frame.headers.get("port", "")), frame.headers.get("streamtype", "")
        if port is None or kind not in {_DATA, _ERROR}:
            await self._socket.send_bytes(spdy.rst_stream(frame.stream))
            return
        request = frame.headers.get("requestid", "")
        connection = self._requests.setdefault(request, _Connection(port, {}, asyncio.Queue(_WAITING_PIECES)))
        connection.streams[kind] = frame.stream
        if kind == _DATA:
            self._by_data_stream[frame.stream] = connection
        await self._socket.send_bytes(self._writer.syn_reply(frame.stream))
        if len(connection.streams) == len({_DATA, _ERROR}):
            del self._requests[request]
            connection.task = asyncio.create_task(self._serve(connection))
            # Not a `finally`: a task that is cancelled before it has begun runs none.
            connection.task.add_done_callback(lambda _: self._forget(connection))

    async def _feed(self, frame: spdy.Data) -> None:
        connection = self._by_data_stream.get(frame.stream)
        if connection is None:
            return  # of a connection that has ended, or the empty end of an error stream
        try:
            async with asyncio.timeout(self._patience):
                if frame.data:
                    await connection.pieces.put(frame.data)
                if frame.fin:
                    await connection.pieces.put(b"")
        except TimeoutError:
            await self._stop(connection, f"the pod has read nothing from port {connection.port} for too long")

    async def _reset(self, stream: int) -> None:
        if connection := self._by_data_stream.get(stream):
            await self._stop(connection)

    async def _stop(self, connection: _Connection, error: str = "") -> None:
        if connection.task:
            connection.task.cancel()
            await asyncio.wait([connection.task])
            # Also if the client has left it: kubectl waits for the end of the error stream.
            await self._end(connection, error)

    async def _serve(self, connection: _Connection) -> None:
        """Join one connection of the client to one to the pod until either ends."""
        # The client may have left, and the session is about to end.
        with suppress(ConnectionError):
            await self._end(connection, await self._join(connection))

    def _forget(self, connection: _Connection) -> None:
        self._by_data_stream.pop(connection.streams[_DATA], None)
        # The session may wait for room in the queue.
        while not connection.pieces.empty():
            connection.pieces.get_nowait()

    async def _join(self, connection: _Connection) -> str:
        """Return when the pod has sent all: with an empty text, or with why it could not be reached."""
        host, port = self._address.ip, self._address.port or connection.port
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(host, port)
        except OSError as error:
            why = _words(error)
            return f"port {connection.port} of the pod cannot be reached: {why}; `kubectl describe pod` lists its ports"
        sending = asyncio.create_task(_send(connection, writer))
        try:
            while piece := await reader.read(_PIECE):
                await self._socket.send_bytes(spdy.data(connection.streams[_DATA], piece))
        except ConnectionError as error:
            return f"the pod has broken the connection to port {connection.port}: {_words(error)}"
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            writer.close()
        return ""

    async def _end(self, connection: _Connection, error: str) -> None:
        data, errors = connection.streams[_DATA], connection.streams[_ERROR]
        # kubectl shows the message when the data stream has ended, so the message comes first.
        await self._socket.send_bytes(spdy.data(errors, error.encode(), fin=True))
        await self._socket.send_bytes(spdy.rst_stream(data) if error else spdy.data(data, fin=True))


async def _send(connection: _Connection, writer: asyncio.StreamWriter) -> None:
    """Send what the client sends, until it has sent all. What the pod does not take is dropped: its answer counts."""
    with suppress(OSError):
        while piece := await connection.pieces.get():
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
        return
    while await connection.pieces.get():
        pass


def _port(text: str) -> int | None:
    number = int(text) if _NUMBER.fullmatch(text) else 0
    return number if 0 < number < 2**16 else None


def _words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else "no answer"
