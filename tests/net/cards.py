"""What the tests of agent cards share: one check, one card, and a server that publishes what a test says."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from modelyard.core.checks.agent_card import AgentCard
from modelyard.core.checks.service_address import ServiceAddress

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from modelyard.net.http_exchange import Locate

Json = dict[str, Any]

SERVICE = ServiceAddress("default", "calendar", 8080)
NEWER, OLDER = "/.well-known/agent-card.json", "/.well-known/agent.json"
CARD: Json = {
    "name": "Calendar",
    "description": "Manages calendars",
    "version": "1.2.0",
    "url": "http://calendar.default.svc.cluster.local:8080/a2a",
    "documentationUrl": "https://example.com/calendar",
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "capabilities": {"streaming": True, "pushNotifications": False},
    "skills": [{"id": "list", "name": "List events", "description": "Lists events", "tags": ["calendar"]}],
}


def check(timeout: float = 10.0, trust: str = "") -> AgentCard:
    """The check, with a time limit that no friendly agent comes near."""
    return AgentCard(SERVICE, "revision-1", trust, timeout)


@asynccontextmanager
async def publishing(tls: ssl.SSLContext | None = None, **pages: bytes | Json) -> AsyncIterator[Locate]:
    """An agent with these pages: `newer` and `older` are the two paths of a card."""
    paths = {NEWER: pages.get("newer"), OLDER: pages.get("older")}

    async def answer(request: web.BaseRequest) -> web.Response:
        page = paths.get(request.path)
        if page is None:
            return web.Response(status=404)
        body = page if isinstance(page, bytes) else msgspec.json.encode(page)
        return web.Response(body=body, content_type="application/json")

    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        port = runner.addresses[0][1]
        yield lambda _: ("127.0.0.1", port)
    finally:
        await runner.cleanup()
