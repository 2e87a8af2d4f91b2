from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from modelyard.core.checks import Answer
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.reasons import Reason
from modelyard.net.http_exchange import in_cluster
from modelyard.net.mcp import handshake
from tests.net.greetings import NAME, SERVICE, answering, check, request, scripted
from tests.support.mcpserver import Behaviour, McpServers, Mood

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FRIENDLY = Answer(
    ok=True,
    reason=Reason.ANSWERED,
    message="the server answered; tools: 2",
    value={
        "name": "tiny", "version": "1.0", "protocolVersion": "2025-06-18", "tools": ["add", "echo"], "toolCount": 2,
    },
)  # fmt: skip
WANTS_CREDENTIALS = (
    "the server wants credentials (HTTP 401); Modelyard's check sends none: "
    "let the server answer 'initialize' and 'tools/list' without them"
)
NOT_MCP = "the server answered 'initialize' with something other than MCP; check spec.server.path and spec.server.port"
NO_ANSWER = "the server did not answer; check that it listens on spec.server.port on all interfaces"


@pytest.fixture
async def servers() -> AsyncIterator[McpServers]:
    async with McpServers().serve() as running:
        yield running


@pytest.mark.parametrize("mood", [Mood.JSON, Mood.EVENTS])
@pytest.mark.parametrize("sessions", [True, False])
async def test_a_friendly_server_is_described(servers: McpServers, mood: Mood, sessions: bool) -> None:
    servers.become(NAME, Behaviour(mood=mood, sessions=sessions))
    assert await handshake(check(), servers.locate) == FRIENDLY


async def test_the_session_is_ended_and_each_step_is_taken_once(servers: McpServers) -> None:
    await handshake(check(), servers.locate)
    steps = ["initialize", "notifications/initialized", "tools/list", "DELETE"]
    assert dict(servers.calls) == {(NAME, step): 1 for step in steps}
    assert servers.sessions == {}


async def test_without_a_session_nothing_is_confirmed_so_a_server_that_would_never_answer_is_ready(
    servers: McpServers,
) -> None:
    servers.become(NAME, Behaviour(sessions=False, answers_notes=False))
    assert await handshake(check(), servers.locate) == FRIENDLY
    assert dict(servers.calls) == {(NAME, step): 1 for step in ("initialize", "tools/list")}


async def test_a_server_without_sessions_that_insists_is_told_that_the_client_is_ready(servers: McpServers) -> None:
    servers.become(NAME, Behaviour(sessions=False, insists=True))
    assert await handshake(check(), servers.locate) == FRIENDLY
    assert servers.calls[NAME, "notifications/initialized"] == 1


async def test_the_session_is_ended_after_a_failure_too(servers: McpServers) -> None:
    servers.become(NAME, Behaviour(speaks=("2099-01-01",)))
    answer = await handshake(check(), servers.locate)
    assert (answer.ok, answer.reason) == (False, Reason.BAD_ANSWER)
    assert "version '2099-01-01'" in answer.message
    assert servers.sessions == {}


async def test_a_server_of_the_older_version_is_understood(servers: McpServers) -> None:
    servers.become(NAME, Behaviour(speaks=("2025-03-26",)))
    answer = await handshake(check(), servers.locate)
    assert answer.value["protocolVersion"] == "2025-03-26"


async def test_a_server_without_tools_is_not_asked_for_them(servers: McpServers) -> None:
    servers.become(NAME, Behaviour(has_tools=False))
    answer = await handshake(check(), servers.locate)
    assert (answer.ok, answer.value["toolCount"]) == (True, 0)
    assert servers.calls[NAME, "tools/list"] == 0


async def test_tools_are_collected_over_pages(servers: McpServers) -> None:
    servers.become(NAME, Behaviour(tools=tuple(f"tool-{n:03}" for n in reversed(range(120))), page=40))
    answer = await handshake(check(), servers.locate)
    assert answer.value["toolCount"] == 120
    assert answer.value["tools"] == [f"tool-{n:03}" for n in range(100)]
    assert servers.calls[NAME, "tools/list"] == 3


async def test_endless_pages_are_left_after_ten(servers: McpServers) -> None:
    servers.become(NAME, Behaviour(tools=tuple(f"tool-{n:03}" for n in range(500)), page=1))
    answer = await handshake(check(), servers.locate)
    assert (answer.ok, answer.value["toolCount"]) == (True, 10)
    assert answer.message == "the server answered; tools: at least 10, the list is too long to be read"
    assert servers.calls[NAME, "tools/list"] == 10


async def test_a_list_of_tools_that_is_too_long_makes_no_bad_server(servers: McpServers) -> None:
    servers.become(NAME, Behaviour(tools=tuple(f"{n:0100}" for n in range(3000)), page=3000))
    answer = await handshake(check(), servers.locate)
    assert (answer.ok, answer.value["name"], answer.value["tools"]) == (True, "tiny", [])
    assert answer.message == "the server answered; tools: at least 0, the list is too long to be read"
    assert servers.sessions == {}


async def test_names_from_the_server_are_cleaned_and_cut(servers: McpServers) -> None:
    name = "evil\x1b[31m\u202e\x00" + "x" * 200
    servers.become(NAME, Behaviour(name=name, version="1\n2", tools=(name,)))
    answer = await handshake(check(), servers.locate)
    shown = ("evil[31m" + "x" * 200)[:128]
    assert (answer.value["name"], answer.value["version"], answer.value["tools"]) == (shown, "1 2", [shown])


@pytest.mark.parametrize(
    ("mood", "reason", "message"),
    [
        (
            Mood.UNAUTHORIZED,
            Reason.UNAUTHORIZED,
            WANTS_CREDENTIALS,
        ),
        (
            Mood.UNAVAILABLE,
            Reason.BAD_ANSWER,
            "the server answered 'initialize' with HTTP 503; look at the logs of its pods",
        ),
        (
            Mood.JUNK,
            Reason.BAD_ANSWER,
            NOT_MCP,
        ),
        (Mood.CLOSE, Reason.NO_ANSWER, NO_ANSWER),
    ],
)
async def test_trouble_is_named_with_its_remedy(servers: McpServers, mood: Mood, reason: Reason, message: str) -> None:
    servers.become(NAME, Behaviour(mood=mood))
    assert await handshake(check(), servers.locate) == Answer(False, reason, message)


async def test_a_wrong_path_is_named(servers: McpServers) -> None:
    servers.become(NAME, Behaviour(path="/elsewhere"))
    answer = await handshake(check("/mcp"), servers.locate)
    expected = "the server has no MCP endpoint at '/mcp' (HTTP 404); check spec.server.path and spec.server.port"
    assert answer == Answer(False, Reason.BAD_ANSWER, expected)


async def test_closed_hanging_and_unknown_servers_look_alike_from_outside(servers: McpServers) -> None:
    servers.become(NAME, Behaviour(mood=Mood.HANG))
    async with scripted(answering("HTTP/1.1 200 OK")) as gone:
        closed = gone(SERVICE)
    hanging = await handshake(check(timeout=0.2), servers.locate)
    refused = await handshake(check(), lambda _: closed)
    unknown = await handshake(check(), lambda _: ("no-such-host.invalid", 80))
    assert hanging == refused == unknown == Answer(False, Reason.NO_ANSWER, NO_ANSWER)


async def test_a_handshake_can_be_cancelled_at_once() -> None:
    called = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        called.set()
        await reader.read()

    async with scripted(hang) as where, asyncio.timeout(60):
        task = asyncio.create_task(handshake(check(timeout=600.0), where))
        await called.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_service_is_dialled_at_its_address_or_by_its_name() -> None:
    assert in_cluster(SERVICE) == ("tiny.default.svc.cluster.local", 8080)
    assert in_cluster(ServiceAddress("default", "tiny", 8080, "10.96.0.7")) == ("10.96.0.7", 8080)


async def test_the_server_is_called_by_the_name_of_its_service_and_gets_no_credentials() -> None:
    heads: list[str] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await request(reader))

    async with scripted(listen) as where:
        await handshake(check("@evil.example/mcp?key=1"), where)
    lines = heads[0].splitlines()
    assert lines[0] == "POST /@evil.example/mcp?key=1 HTTP/1.1"
    assert "Host: tiny.default.svc.cluster.local:8080" in lines
    assert {line.partition(":")[0].lower() for line in lines[1:] if line} == {
        "host", "accept", "accept-encoding", "content-type", "content-length", "user-agent",
    }  # fmt: skip


async def test_all_requests_of_a_handshake_share_one_connection_and_the_next_handshake_takes_another() -> None:
    """A Service spreads connections over pods: a session must stay with its pod, a new question must find new pods."""
    connections: list[list[str]] = []

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append([])
        while head := await request(reader):
            connections[-1].append(head.split(" ", 1)[0])
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "tools": []}
            event = msgspec.json.encode(
                {"jsonrpc": "2.0", "id": 1 if len(connections[-1]) == 1 else 2, "result": result}
            )
            body = b"data: " + event + b"\n\n"
            kind = "Content-Type: text/event-stream\r\nMcp-Session-Id: one\r\nTransfer-Encoding: chunked"
            writer.write(f"HTTP/1.1 200 OK\r\n{kind}\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")

    async with scripted(converse) as where:
        assert (await handshake(check(), where)).ok
        assert (await handshake(check(), where)).ok
    assert connections == [["POST", "POST", "POST", "DELETE"]] * 2
