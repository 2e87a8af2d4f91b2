"""A proxy in front of the API server that keeps a ledger of all calls and does harm as told.

It passes everything on unchanged, watches line by line, until a rule says otherwise. Client certificates cannot pass a
proxy, so its clients must use tokens.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
from base64 import b64encode
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml
from aiohttp import web
from msgspec import Struct
from multidict import CIMultiDict
from yarl import URL

from modelyard.local.pki import Authority
from modelyard.local.ports import free_ports
from tests.support.calls import Call, Match, read_call
from tests.support.faults import Answer, Armed, CloseWatch, Cut, Delay, DropEvents, Hold, HoldEvents, Kill, Rule

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from multidict import CIMultiDictProxy

    from modelyard.local.controlplane import ControlPlane
    from tests.support.faults import EventFault, RequestFault

# They belong to one connection, or are worked out anew for the other one.
_NOT_PASSED_ON = frozenset({"host", "connection", "transfer-encoding", "content-length", "keep-alive"})
_LARGEST_BODY = 64 * 1024 * 1024
_NO_LIMIT = aiohttp.ClientTimeout(total=None, connect=10)


class Entry(Struct, frozen=True):
    """One call of the ledger. Status 0: the server never saw it, or never answered."""

    call: Call
    status: int
    delivered: bool
    body: str
    """A digest of what was sent, to tell equal writes from different ones."""


class FaultProxy:
    """Stand between clients and one API server."""

    def __init__(self, upstream: str, trust: Path, folder: Path) -> None:
        self._upstream, self._trust, self._folder = upstream, trust, folder
        self._authority = Authority.open(folder, "faultproxy")
        self._port = free_ports(1)[0]
        self._armed: list[Armed] = []
        self._streams: dict[aiohttp.ClientResponse, Call] = {}
        self.ledger: list[Entry] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self._port}"

    def kubeconfig_for(self, source: Path) -> Path:
        """Write a kubeconfig with the same credentials that goes through this proxy."""
        content = yaml.safe_load(source.read_text())
        for user in content["users"]:
            if "client-certificate-data" in user["user"]:
                raise ValueError(f"{source} holds a client certificate, which does not pass a proxy; use a token")
        authority = b64encode(self._authority.certificate_file.read_bytes()).decode()
        for cluster in content["clusters"]:
            cluster["cluster"] = {"server": self.url, "certificate-authority-data": authority}
        target = self._folder / source.name
        target.write_text(yaml.safe_dump(content))
        return target

    def arm(self, rule: Rule) -> Armed:
        """Put a rule to work, after those that are at work already: the first that is due strikes."""
        armed = Armed(rule)
        self._armed.append(armed)
        return armed

    def disarm(self) -> None:
        """Take back all rules. Who waits at a gate still waits for it."""
        self._armed.clear()

    def calls(self, match: Match = Match()) -> list[Entry]:  # noqa: B008 - a frozen value
        """Return the ledger's entries that fit, in order."""
        return [entry for entry in self.ledger if match.fits(entry.call)]

    def close_watches(self, match: Match = Match()) -> int:  # noqa: B008 - a frozen value
        """Break all open watches that fit, and say how many there were."""
        broken = [stream for stream, call in self._streams.items() if match.fits(call)]
        for stream in broken:
            stream.close()
        return len(broken)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FaultProxy]:
        """Listen for as long as the block lasts."""
        trust = ssl.create_default_context(cafile=str(self._trust))
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=_NO_LIMIT, auto_decompress=False) as session:
            self._session = session
            app = web.Application(client_max_size=_LARGEST_BODY)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=self._identity()).start()
            try:
                yield self
            finally:
                self.close_watches()
                await runner.cleanup()

    def _identity(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = self._authority.store("server", self._authority.server("faultproxy", ("127.0.0.1",)))
        context.load_cert_chain(pair.certificate, pair.key)
        return context

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = read_call(request.method, request.path, request.query, request.headers.get("User-Agent", ""))
        body = await request.read()
        fault = self._request_fault(call)
        if isinstance(fault, Answer):
            self._note(call, 0, body, delivered=False)
            return _status_answer(fault)
        if not await _before_commit(fault):
            self._note(call, 0, body, delivered=False)
            return _abort(request)
        try:
            return await self._forward(request, call, body, fault)
        except aiohttp.ClientError:
            self._note(call, 0, body, delivered=False)
            return _abort(request)

    async def _forward(
        self, request: web.Request, call: Call, body: bytes, fault: RequestFault | None
    ) -> web.StreamResponse:
        headers = _passed_on(request.headers)
        url = URL(self._upstream + request.raw_path, encoded=True)
        async with self._session.request(request.method, url, headers=headers, data=body or None) as answer:
            if call.verb == "watch" and answer.status == 200:
                self._note(call, answer.status, body, delivered=True)
                return await self._stream(request, call, answer)
            content = await answer.read()
        delivered = await _after_commit(fault)
        self._note(call, answer.status, body, delivered=delivered)
        if not delivered:
            return _abort(request)
        return web.Response(status=answer.status, headers=_passed_on(answer.headers), body=content)

    async def _stream(self, request: web.Request, call: Call, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(headers=_passed_on(answer.headers))
        await response.prepare(request)
        self._streams[answer] = call
        try:
            async for line in _lines(answer):
                if not await self._pass_event(response, call, line):
                    break
            await response.write_eof()
        except (aiohttp.ClientError, ConnectionError):
            return _abort(request)
        finally:
            del self._streams[answer]
        return response

    async def _pass_event(self, response: web.StreamResponse, call: Call, line: bytes) -> bool:
        """Deliver an event unless a fault befalls it; false ends the watch."""
        fault = self._event_fault(call, line)
        if isinstance(fault, CloseWatch):
            if fault.status:
                await response.write(_error_event(fault))
            return False
        if isinstance(fault, HoldEvents):
            await fault.gate.wait()
        if not isinstance(fault, DropEvents):
            await response.write(line)
        return True

    def _request_fault(self, call: Call) -> RequestFault | None:
        armed = self._strike(call, event=False)
        return armed.rule.do if armed else None  # type: ignore[return-value]  # told apart by `of_events`

    def _event_fault(self, call: Call, line: bytes) -> EventFault | None:
        # Bookmarks come by the clock, so they must not count.
        if b'"type":"BOOKMARK"' in line[:64]:
            return None
        armed = self._strike(call, event=True)
        return armed.rule.do if armed else None  # type: ignore[return-value]  # told apart by `of_events`

    def _strike(self, call: Call, *, event: bool) -> Armed | None:
        # Every rule counts every call, also those that an earlier rule strikes.
        due = [armed for armed in self._armed if armed.is_due(call, event=event)]
        if not due:
            return None
        due[0].strike()
        return due[0]

    def _note(self, call: Call, status: int, body: bytes, *, delivered: bool) -> None:
        digest = hashlib.sha256(body).hexdigest()[:16] if body else ""
        self.ledger.append(Entry(call, status, delivered, digest))


@asynccontextmanager
async def fault_proxy(controlplane: ControlPlane, folder: Path) -> AsyncIterator[FaultProxy]:
    """Run a proxy in front of a control plane for as long as the block lasts."""
    async with FaultProxy(controlplane.url, controlplane.ca, folder).running() as proxy:
        yield proxy


async def _before_commit(fault: RequestFault | None) -> bool:
    """Do what happens before the server sees the request; false: it never does."""
    if isinstance(fault, Delay):
        await asyncio.sleep(fault.seconds)
    if isinstance(fault, Hold) and not fault.after_commit:
        await fault.gate.wait()
    if isinstance(fault, Kill) and not fault.after_commit:
        fault.kill()
    return not (isinstance(fault, Cut | Kill) and not fault.after_commit)


async def _after_commit(fault: RequestFault | None) -> bool:
    """Do what happens once the server has answered; false: the client never learns it."""
    if isinstance(fault, Hold) and fault.after_commit:
        await fault.gate.wait()
    if isinstance(fault, Kill):
        fault.kill()
    return not isinstance(fault, Cut | Kill)


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    # Not `content.readline`, which refuses long lines.
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"


def _abort(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _status_answer(fault: Answer) -> web.Response:
    headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after is not None else {}
    return web.json_response(_status(fault.status, fault.reason, fault.message), status=fault.status, headers=headers)


def _error_event(fault: CloseWatch) -> bytes:
    event = {"type": "ERROR", "object": _status(fault.status, fault.reason, "injected by a test")}
    return json.dumps(event).encode() + b"\n"


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**head, "message": message, "reason": reason, "code": code}


def _passed_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _NOT_PASSED_ON)
