"""Answers that no honest server gives. Whatever comes, a handshake ends in time, small, and with a plain reason."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc

import msgspec
import pytest

from modelyard.core.reasons import Reason
from modelyard.net.mcp import handshake
from tests.net.greetings import answering, check, request, scripted

OK = "HTTP/1.1 200 OK"
JSON = f"{OK}\nContent-Type: application/json"
EVENTS = f"{OK}\nContent-Type: text/event-stream"
TOO_LARGE = "the server answers with more than 256 KiB; check spec.server.path and spec.server.port"
NOT_MCP = "the server answered 'initialize' with something other than MCP; check spec.server.path and spec.server.port"
BROKEN_RESULT = "the server answered 'initialize' with a result that breaks the protocol; look at the logs of its pods"
WRONG_NAME = (
    "the server does not accept the name it is called by (HTTP 421); let it accept the host name of its Service"
)
NO_ANSWER = "the server did not answer; check that it listens on spec.server.port on all interfaces"


def result(value: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": value})


def deep(levels: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * levels + b"]" * levels + b"}"


@pytest.mark.parametrize(
    ("head", "body", "message"),
    [
        pytest.param(OK, b"hello", NOT_MCP, id="no content type"),
        pytest.param(f"{OK}\nContent-Type: text/html", b"<html>", NOT_MCP, id="HTML"),
        pytest.param(JSON, b"", NOT_MCP, id="empty body"),
        pytest.param(JSON, b"\xff\xfe", NOT_MCP, id="not UTF-8"),
        pytest.param(JSON, b"[1, 2]", NOT_MCP, id="JSON of another shape"),
        pytest.param(JSON, b'{"jsonrpc":"2.0","id":7,"result":{}}', NOT_MCP, id="answer to another request"),
        pytest.param(JSON, b'{"jsonrpc":"2.0","id":1,"method":"ping"}', NOT_MCP, id="a request instead of an answer"),
        pytest.param(JSON, deep(100_000), NOT_MCP, id="deep JSON"),
        pytest.param(JSON, b'{"jsonrpc":"2.0","id":1}', BROKEN_RESULT, id="neither result nor error"),
        pytest.param(JSON, result(None), BROKEN_RESULT, id="null result"),
        pytest.param(JSON, result({"protocolVersion": 3}), BROKEN_RESULT, id="version of a wrong type"),
        pytest.param(JSON, b" " * 300_000, TOO_LARGE, id="too large"),
        pytest.param(f"{JSON}\nContent-Length: 99999999999", b" " * 300_000, TOO_LARGE, id="huge and honest about it"),
        pytest.param(f"{JSON}\nContent-Encoding: gzip", gzip.compress(b" " * 50_000_000), TOO_LARGE, id="gzip bomb"),
        pytest.param(
            f"{JSON}\nContent-Encoding: gzip",
            b"junk" * 9,
            "the server answers with broken gzip; check spec.server.path and spec.server.port",
            id="broken gzip",
        ),
        pytest.param(
            f"{JSON}\nContent-Encoding: br",
            b"junk",
            "the server answers in an encoding that was not asked for; check spec.server.path and spec.server.port",
            id="unasked encoding",
        ),
        pytest.param(EVENTS, b"data: {\n\n", NOT_MCP, id="broken event"),
        pytest.param(EVENTS, b": nothing\n\n", NOT_MCP, id="stream without an answer"),
        pytest.param(EVENTS, b"data: " + b"x" * 300_000, TOO_LARGE, id="endless line"),
        pytest.param(
            "SSH-2.0-OpenSSH_9.6",
            b"",
            "the server does not speak HTTP; check spec.server.path and spec.server.port",
            id="not HTTP",
        ),
        pytest.param(
            f"{JSON}\nMcp-Session-Id: caf\u00e9",
            result({"protocolVersion": "2025-06-18"}),
            "the server sent a session id that breaks the protocol; look at the logs of its pods",
            id="session id outside ASCII",
        ),
        pytest.param(
            JSON,
            b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"at 12:01 I was not amused"}}',
            "the server refused 'initialize' with JSON-RPC error -32602 (at I was not amused); "
            "look at the logs of its pods",
            id="JSON-RPC error",
        ),
        pytest.param(
            JSON,
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}',
            "the server refused 'initialize' with JSON-RPC error -32700; look at the logs of its pods",
            id="JSON-RPC error without a number",
        ),
        pytest.param(
            "HTTP/1.1 307 Temporary Redirect\nLocation: http://169.254.169.254/\nContent-Length: 0",
            b"",
            "the server redirects '/mcp' (HTTP 307), which is not followed; put the final path into spec.server.path",
            id="redirect",
        ),
        pytest.param(
            "HTTP/1.1 421 Misdirected Request\nContent-Length: 0",
            b"",
            WRONG_NAME,
            id="refuses our Host header",
        ),
        pytest.param(
            "HTTP/1.1 405 Method Not Allowed\nContent-Length: 0",
            b"",
            "the server takes no requests at '/mcp' (HTTP 405); "
            "let it speak Streamable HTTP, not the older HTTP+SSE, and check spec.server.path",
            id="the older transport",
        ),
        pytest.param(
            "HTTP/1.1 400 Bad Request\nContent-Length: 0",
            b"",
            "the server answered 'initialize' with HTTP 400; check spec.server.path and spec.server.port",
            id="bad request",
        ),
    ],
)
async def test_what_is_not_mcp_is_a_bad_answer(head: str, body: bytes, message: str) -> None:
    async with scripted(answering(head, body)) as where:
        answer = await handshake(check(), where)
    assert (answer.ok, answer.reason, answer.message) == (False, Reason.BAD_ANSWER, message)


async def test_who_is_not_let_in_may_have_the_wrong_name_or_lack_credentials() -> None:
    async with scripted(answering("HTTP/1.1 403 Forbidden\nContent-Length: 0")) as where:
        answer = await handshake(check(), where)
    assert answer.reason is Reason.UNAUTHORIZED
    assert answer.message == (
        "the server does not let Modelyard in (HTTP 403); "
        "let it accept the host name of its Service and need no credentials"
    )


@pytest.mark.parametrize(
    ("head", "body"),
    [
        pytest.param("", b"", id="empty head"),
        pytest.param(f"{JSON}\nContent-Length: 500", b"{", id="body shorter than announced"),
        pytest.param(f"{JSON}\nTransfer-Encoding: chunked", b"5\r\n{", id="chunk cut short"),
    ],
)
async def test_a_connection_that_breaks_is_no_answer(head: str, body: bytes) -> None:
    async with scripted(answering(head, body)) as where:
        answer = await handshake(check(), where)
    assert (answer.ok, answer.reason) == (False, Reason.NO_ANSWER)


@pytest.mark.parametrize("head", [JSON, EVENTS, "HTTP/1.1 200 OK\nX-Slow: "])
async def test_slow_bytes_end_with_the_time_limit(head: str) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(head.replace("\n", "\r\n").encode() + (b"" if head.endswith(" ") else b"\r\n\r\n"))
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with scripted(drip) as where, asyncio.timeout(60):
        answer = await handshake(check(timeout=0.3), where)
    assert (answer.reason, answer.message) == (Reason.NO_ANSWER, NO_ANSWER)


@pytest.mark.parametrize("head", [JSON, EVENTS, f"{JSON}\nContent-Encoding: gzip"])
async def test_an_endless_body_is_left_early_and_costs_little_memory(head: str) -> None:
    packed = gzip.compress(b"[" * 10_000_000)

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        while not writer.is_closing():
            writer.write(packed if "gzip" in head else b"[" * 65536)
            await writer.drain()

    async with scripted(flood) as where, asyncio.timeout(60):
        tracemalloc.start()
        try:
            answer = await handshake(check(), where)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (answer.reason, answer.message) == (Reason.BAD_ANSWER, TOO_LARGE)
    assert peak < 10 * 1024 * 1024


async def test_a_stream_that_never_ends_does_not_hold_up_an_answer_that_came() -> None:
    async def linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        event = result({"protocolVersion": "2025-06-18", "serverInfo": {"name": "s", "version": "1"}})
        writer.write(EVENTS.replace("\n", "\r\n").encode() + b"\r\n\r\ndata: " + event + b"\n\n")
        await reader.read()

    async with scripted(linger) as where, asyncio.timeout(60):
        answer = await handshake(check(), where)
    assert answer.ok


async def test_a_server_that_loses_sessions_is_told_apart_from_a_wrong_path() -> None:
    replies = [
        f"{JSON}\nMcp-Session-Id: one".replace("\n", "\r\n").encode(),
        b"HTTP/1.1 404 Not Found",
    ]
    bodies = [result({"protocolVersion": "2025-06-18"}), b""]

    async def forget(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for head, body in zip(replies, bodies, strict=True):
            await request(reader)
            writer.write(head + f"\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    async with scripted(forget) as where:
        answer = await handshake(check(), where)
    assert answer.reason is Reason.BAD_ANSWER
    assert answer.message == (
        "the server forgot the session between two requests (HTTP 404); "
        "with several replicas, let them share sessions or run without sessions"
    )


async def test_gzip_that_was_not_asked_for_is_understood() -> None:
    body = gzip.compress(result({"protocolVersion": "2025-06-18"}))
    head = f"{JSON}\nContent-Encoding: gzip\nContent-Length: {len(body)}"

    async def packed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        await request(reader)
        writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

    async with scripted(packed) as where:
        assert (await handshake(check(), where)).ok
