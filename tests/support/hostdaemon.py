"""A small daemon for hosts: the contract of `modelyard host` over real HTTP, with models that load when told to."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

Json = dict[str, Any]

GIB = 1024**3


class HostDaemon:
    """One daemon. It can be stopped and started again at the same port, with or without its models."""

    def __init__(self, token: str = "", total: int = 16 * GIB) -> None:
        self.token, self.total = token, total
        self.models: dict[str, Json] = {}
        self.asked: list[str] = []
        """Every change that it was asked for: `load X`, `unload X`."""
        self.bodies: dict[str, Json] = {}
        """The latest load request of each model."""
        self.pressure = "normal"
        self.lands = "ready"
        """The state in which a model is listed at once."""
        self.refuses: web.Response | None = None
        """What it answers to loads; None: it accepts them."""
        self.gate = asyncio.Event()
        """Nothing is answered before it is open."""
        self.gate.set()
        self.probes = 0
        self.port = 0
        self._runner: web.AppRunner | None = None

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[HostDaemon]:
        await self.start(tls)
        try:
            yield self
        finally:
            await self.stop()

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        application = web.Application(middlewares=[self._guarded])
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/admin/models", self._list)
        application.router.add_post("/admin/models", self._load)
        application.router.add_delete("/admin/models/{id:.+}", self._unload)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    def shows(self, model: str, state: str, **fields: Any) -> None:
        self.models[model] = {"memoryBytes": 0, **self.models.get(model, {}), "id": model, "state": state, **fields}

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Any) -> web.StreamResponse:
        await self.gate.wait()
        wanted = f"Bearer {self.token}"
        if self.token and request.path.startswith("/admin") and request.headers.get("Authorization") != wanted:
            return _error(401, "Unauthorized", "the token is wrong")
        return await handler(request)  # type: ignore[no-any-return]

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _list(self, _: web.Request) -> web.Response:
        self.probes += 1
        free = self.total - sum(model["memoryBytes"] for model in self.models.values())
        host = {"memoryTotalBytes": self.total, "memoryFreeBytes": free, "version": "test"}
        host["memoryPressure"] = self.pressure
        return web.json_response({"models": list(self.models.values()), "host": host})

    async def _load(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(f"load {body['model']}")
        self.bodies[body["model"]] = body
        if self.refuses is not None:
            return web.Response(status=self.refuses.status, body=self.refuses.body, headers=self.refuses.headers)
        if self.models.get(body["model"], {}).get("state", "failed") == "failed":
            self.shows(body["model"], self.lands, memoryBytes=body.get("memory", 0), owner=body.get("owner"))
        return web.json_response(self.models[body["model"]], status=202)

    async def _unload(self, request: web.Request) -> web.Response:
        model = request.match_info["id"]
        self.asked.append(f"unload {model}")
        found = self.models.pop(model, None)
        return web.json_response(found, status=202) if found else _error(404, "NotFound", "no such model")


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status)
