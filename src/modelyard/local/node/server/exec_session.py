"""`kubectl exec`: run a command with the variables, folder and paths of a container, its streams on a WebSocket.

`kubelet_server` calls it. The protocol is `channel.k8s.io`: the first byte of each message names the stream that the
rest belongs to.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import WSMsgType, web

from modelyard.local.node.process.reaper import kill_group
from modelyard.local.node.server.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from modelyard.local.node.pods.probes import ContainerAccess

Json = dict[str, Any]

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = b"\0", b"\1", b"\2", b"\3", b"\4", b"\xff"
_PIECE: Final = 32_768
_LINES, _COLUMNS = 24, 80
# The exit code of shells for a command that they cannot start.
_NOT_FOUND: Final = 127
# The limit for the last output: a child that the command has left behind may hold its stream open for ever.
_LAST_WORDS_SECONDS: Final = 1.0


async def execute(request: web.Request, access: ContainerAccess) -> web.StreamResponse:
    """Run the command of a request in a container, and return when it has ended or the client has left."""
    socket = web.WebSocketResponse(protocols=PROTOCOLS)
    await socket.prepare(request)
    command = tuple(access.localize(word) for word in request.query.getall("command", []))
    has_input, is_terminal = (_is_true(request.query, name) for name in ("input", "tty"))
    # The client may close the connection at any time; the command is killed then.
    with suppress(ConnectionError):
        try:
            code = await _run(command, access, socket, has_input=has_input, is_terminal=is_terminal)
        except OSError as error:
            await socket.send_bytes(_STDERR + f"{command[0]} cannot be started: {error.strerror}\n".encode())
            code = _NOT_FOUND
        await socket.send_bytes(_ERROR + msgspec.json.encode({"metadata": {}, **_result(code)}))
    await socket.close()
    return socket


async def _run(
    command: tuple[str, ...],
    access: ContainerAccess,
    socket: web.WebSocketResponse,
    *,
    has_input: bool,
    is_terminal: bool,
) -> int:
    terminal = Terminal() if is_terminal else None
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = None
    try:
        process = await asyncio.create_subprocess_exec(
            *(*access.enter(terminal is not None), *(terminal.command(command) if terminal else command)),
            stdin=terminal.child_end if terminal else pipe if has_input else nothing,
            stdout=terminal.child_end if terminal else pipe,
            stderr=terminal.child_end if terminal else pipe,
            env=dict(access.env),
            cwd=access.folder,
            start_new_session=True,
        )
        return await _stream_until_exit(process, terminal, socket)
    finally:
        if process is not None:
            kill_group(process.pid)
        if terminal:
            terminal.close()


async def _stream_until_exit(
    process: asyncio.subprocess.Process, terminal: Terminal | None, socket: web.WebSocketResponse
) -> int:
    """Forward the streams until the command ends, or kill it when the client leaves; return its exit code."""
    if terminal:
        terminal.close_child_end()
        output = [asyncio.create_task(_forward_output(terminal.pieces(), _STDOUT, socket))]
    else:
        output = [
            asyncio.create_task(_forward_output(_pieces(stream), channel, socket))
            for stream, channel in ((process.stdout, _STDOUT), (process.stderr, _STDERR))
        ]
    input_ = asyncio.create_task(_forward_input(process, terminal, socket))
    ending = asyncio.create_task(process.wait())
    try:
        await asyncio.wait([ending, input_], return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            kill_group(process.pid)
        code = await ending
        await asyncio.wait(output, timeout=_LAST_WORDS_SECONDS)
        return code if code >= 0 else 128 - code
    finally:
        for task in (*output, input_, ending):
            task.cancel()
        await asyncio.gather(*output, input_, ending, return_exceptions=True)


async def _pieces(stream: asyncio.StreamReader | None) -> AsyncIterator[bytes]:
    while stream is not None and (piece := await stream.read(_PIECE)):
        yield piece


async def _forward_output(pieces: AsyncIterator[bytes], channel: bytes, socket: web.WebSocketResponse) -> None:
    async for piece in pieces:
        await socket.send_bytes(channel + piece)


async def _forward_input(
    process: asyncio.subprocess.Process, terminal: Terminal | None, socket: web.WebSocketResponse
) -> None:
    """Forward input and window sizes of the client, until it leaves."""
    async for message in socket:
        if message.type is not WSMsgType.BINARY:
            continue
        channel, data = message.data[:1], message.data[1:]
        if terminal:
            if channel == _STDIN:
                await terminal.write(data)
            elif channel == _RESIZE:
                terminal.resize(*_size(data))
        elif process.stdin is not None:
            await _write_stdin(process.stdin, channel, data)


async def _write_stdin(stdin: asyncio.StreamWriter, channel: bytes, data: bytes) -> None:
    with suppress(ConnectionError):  # the command may have closed its input, or have ended
        if channel == _STDIN:
            stdin.write(data)
            await stdin.drain()
        elif channel + data == _CLOSE + _STDIN:
            stdin.close()


def _size(data: bytes) -> tuple[int, int]:
    try:
        size = msgspec.json.decode(data, type=dict[str, int])
    except msgspec.MsgspecError:
        size = {}
    return size.get("Height", _LINES), size.get("Width", _COLUMNS)


def _result(code: int) -> Json:
    if code == 0:
        return {"status": "Success"}
    message, causes = f"command terminated with exit code {code}", [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "message": message, "details": {"causes": causes}}


def _is_true(query: Mapping[str, str], name: str) -> bool:
    return query.get(name) in {"1", "true"}
