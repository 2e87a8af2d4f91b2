"""Answers `McpHandshake`: starts a session with an MCP server, lists its tools, ends the session.

Speaks the Streamable HTTP transport of the Model Context Protocol. The server is not trusted: nothing it sends is
shown without being cut and cleaned, and messages are the same each time, so that equal answers stay equal. No tool is
ever called.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import structlog
from msgspec import Raw, Struct

import modelyard
from modelyard.core.checks import Answer
from modelyard.core.reasons import Reason
from modelyard.core.text import clean
from modelyard.net.http_exchange import Distrusted, ExchangeFailed, TooLong, conversation, in_cluster
from modelyard.net.jsonrpc import Message, NotJsonRpc, incoming, outgoing
from modelyard.net.mcp_problems import CHECK_ADDRESS, CHECK_LOGS, HandshakeFailed, refusal, rejection, trouble
from modelyard.net.sse import SseDecoder
from modelyard.net.tls_trust import secret_contexts

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

    from modelyard.core.checks.mcp_handshake import McpHandshake
    from modelyard.core.conditions import Problem
    from modelyard.net.http_exchange import Conversation, Locate, Reply

OFFERED: Final = "2025-06-18"
UNDERSTOOD: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
"""Versions whose handshake is the same for a client that only lists tools."""

_MOST_PAGES: Final = 10
_MOST_NAMES: Final = 100
_LONGEST_SESSION: Final = 1024
_GOODBYE_SECONDS: Final = 2.0
_STREAM_END_SECONDS: Final = 0.1
_ACCEPTED: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

_log = structlog.get_logger(__name__)

T = TypeVar("T")


class _Implementation(Struct, frozen=True):
    name: str = ""
    version: str = ""


class _Capabilities(Struct, frozen=True):
    tools: dict[str, Raw] | None = None


class _Initialized(Struct, frozen=True, rename="camel"):
    protocol_version: str
    capabilities: _Capabilities = _Capabilities()
    server_info: _Implementation = _Implementation()


class _Tool(Struct, frozen=True):
    name: str


class _ToolPage(Struct, frozen=True, rename="camel"):
    tools: list[_Tool]
    next_cursor: str | None = None


class _Tools(Struct, frozen=True):
    """What a server offers, as far as it was read."""

    names: list[str] = []
    is_all: bool = True

    @property
    def count(self) -> str:
        return f"{len(self.names)}" if self.is_all else f"at least {len(self.names)}, the list is too long to be read"


class _Session:
    """One MCP session over one conversation."""

    def __init__(self, peer: Conversation, path: str) -> None:
        self._peer = peer
        self._path = path
        self._numbers = count(1)
        self._headers: dict[str, str] = {}
        self._id = ""
        self.is_confirmed = False

    async def initialize(self) -> _Initialized:
        """Agree on a version and, if the server wants one, a session id."""
        client = {"name": "modelyard", "version": modelyard.__version__}
        params = {"protocolVersion": OFFERED, "capabilities": {}, "clientInfo": client}
        server = await self.request("initialize", params, _Initialized)
        if server.protocol_version not in UNDERSTOOD:
            version = clean(server.protocol_version, 32)
            wrong = f"speaks version '{version}' of the protocol, which Modelyard does not know"
            raise HandshakeFailed(Reason.BAD_ANSWER, wrong, f"use a server that speaks {OFFERED}")
        self._headers["MCP-Protocol-Version"] = server.protocol_version
        if self._id:
            await self.confirm()
        return server

    async def confirm(self) -> None:
        """Tell the server that the session may begin."""
        self.is_confirmed = True
        await self._notify("notifications/initialized")

    async def request(self, method: str, params: Mapping[str, Any], into: type[T]) -> T:
        """Send one request and return its result."""
        number = next(self._numbers)
        async with self._peer.send("POST", self._sent_headers, outgoing(method, params, number)) as reply:
            self._check(reply, method)
            self._keep_id(reply)
            try:
                message = await _answer_to(number, reply)
            except NotJsonRpc as error:
                wrong = f"answered '{method}' with something other than MCP"
                raise HandshakeFailed(Reason.BAD_ANSWER, wrong, CHECK_ADDRESS) from error
        return _result(message, method, into)

    async def end(self) -> None:
        """Tell the server that it may forget the session. It need not listen: the answer is known already."""
        if not self._id:
            return
        with suppress(ExchangeFailed, TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS), self._peer.send("DELETE", self._sent_headers):
                pass

    @property
    def _sent_headers(self) -> dict[str, str]:
        return {**_ACCEPTED, **self._headers}

    async def _notify(self, method: str) -> None:
        async with self._peer.send("POST", self._sent_headers, outgoing(method, {}, None)) as reply:
            self._check(reply, method)
            async with aclosing(reply.chunks()) as chunks:
                await _read_to_the_end(chunks)

    def _check(self, reply: Reply, method: str) -> None:
        if not 200 <= reply.status < 300:
            raise refusal(reply.status, method, self._path, in_session=bool(self._id))

    def _keep_id(self, reply: Reply) -> None:
        offered = reply.header("Mcp-Session-Id")
        if not offered or self._id:
            return
        # It is sent back as it came, so it must be fit to be a header.
        if len(offered) > _LONGEST_SESSION or not (offered.isascii() and offered.isprintable()):
            raise HandshakeFailed(Reason.BAD_ANSWER, "sent a session id that breaks the protocol", CHECK_LOGS)
        self._id = self._headers["Mcp-Session-Id"] = offered


async def handshake(check: McpHandshake, where: Locate = in_cluster, trust: str | None = None) -> Answer:
    """Return what an MCP server offers, or why that could not be found out, within `check.timeout` seconds.

    `trust` is the PEM text of the Secret that `check.trust` names: `tls.crt`, then `ca.crt` if there is one; None when
    the Secret does not exist. The server is never asked over an unverified connection instead.
    """
    deadline = asyncio.get_running_loop().time() + check.timeout
    try:
        contexts = secret_contexts(check.trust, trust, "spec.server.tls.secretName", HandshakeFailed)
        for context in contexts[:-1]:
            with suppress(Distrusted):
                return await _greeted(check, where, context, deadline)
        return await _greeted(check, where, contexts[-1], deadline)
    except HandshakeFailed as failure:
        return _answer(failure.problem)
    except ExchangeFailed as failure:
        _log.debug("MCP handshake failed", service=check.service.host, detail=failure.detail)
        return _answer(trouble(failure, check.trust))


async def _greeted(check: McpHandshake, where: Locate, tls: ssl.SSLContext | None, deadline: float) -> Answer:
    async with conversation(check.service, check.path, where, tls, deadline) as peer:
        session = _Session(peer, check.path)
        try:
            answer = await _introduced(session)
        except (HandshakeFailed, ExchangeFailed):
            await session.end()
            raise
        await session.end()
        return answer


async def _introduced(session: _Session) -> Answer:
    server = await session.initialize()
    tools = await _offered(session) if server.capabilities.tools is not None else _Tools()
    value = {
        "name": clean(server.server_info.name),
        "version": clean(server.server_info.version),
        "protocolVersion": server.protocol_version,
        "tools": tools.names[:_MOST_NAMES],
        "toolCount": len(tools.names),
    }
    return Answer(True, Reason.ANSWERED, f"the server answered; tools: {tools.count}", value)


async def _offered(session: _Session) -> _Tools:
    """List the tools. Without a session there is nothing to confirm, unless the server insists.

    Servers made with mcp-golang never answer a confirmation, and each one costs them a connection for good.
    """
    try:
        return await _tools(session)
    except HandshakeFailed:
        if session.is_confirmed:
            raise
    await session.confirm()
    return await _tools(session)


async def _tools(session: _Session) -> _Tools:
    names: set[str] = set()
    params: dict[str, Any] = {}
    for _ in range(_MOST_PAGES):
        try:
            page = await session.request("tools/list", params, _ToolPage)
        except TooLong:
            break  # a server with much to say is no broken server
        names.update(clean(tool.name) for tool in page.tools)
        if not page.next_cursor:
            return _Tools(sorted(names))
        params = {"cursor": page.next_cursor}
    return _Tools(sorted(names), is_all=False)


async def _answer_to(number: int, reply: Reply) -> Message:
    if reply.content_type == "text/event-stream":
        return await _answer_in_stream(number, reply)
    if reply.content_type == "application/json":
        return _pick(number, incoming(await reply.read()))
    raise NotJsonRpc("neither JSON nor an event stream")


async def _answer_in_stream(number: int, reply: Reply) -> Message:
    stream = SseDecoder()
    async with aclosing(reply.chunks()) as chunks:
        async for chunk in chunks:
            for data in stream.feed(chunk):
                found = next((message for message in incoming(data) if message.answers(number)), None)
                if found is not None:
                    await _read_to_the_end(chunks)
                    return found
    raise NotJsonRpc("the stream ended without an answer")


async def _read_to_the_end(chunks: AsyncIterator[bytes]) -> None:
    """Keep the connection usable, as only the same connection is sure to lead to the same pod.

    A server that does not end its answer is not waited for.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_STREAM_END_SECONDS):
            async for _ in chunks:
                pass


def _pick(number: int, messages: list[Message]) -> Message:
    for message in messages:
        if message.answers(number):
            return message
    raise NotJsonRpc("no answer to the request")


def _result(message: Message, method: str, into: type[T]) -> T:
    if message.error is not None:
        raise rejection(method, message.error.code, message.error.message)
    try:
        return msgspec.json.decode(message.result or b"", type=into)
    except (msgspec.DecodeError, RecursionError) as error:
        wrong = f"answered '{method}' with a result that breaks the protocol"
        raise HandshakeFailed(Reason.BAD_ANSWER, wrong, CHECK_LOGS) from error


def _answer(problem: Problem) -> Answer:
    return Answer(False, problem.reason, problem.text)
