"""A small gateway for tests: it reads the variables of the image, and forwards to providers as the image does.

`python -m tests.support.gatewayserver` is the program that stands for the image on one machine. `gateway_page` is what
a gateway says of its providers, for tests whose providers do not exist.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
from aiohttp import web
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping

Json = dict[str, Any]

_PATIENCE = aiohttp.ClientTimeout(total=10)


class Upstream(Struct, frozen=True):
    """A provider, as its two variables describe it."""

    url: str
    key: str = ""


GATEWAY_PATHS = ("/health", "/v1/models")
"""What the operator asks a gateway for."""


def gateway_page(request: web.BaseRequest, failing: Collection[str] = ()) -> web.Response:
    """Return what a gateway answers: that it is well, or two models of a provider, or that it cannot be reached."""
    provider = request.query.get("provider", "")
    if request.path == "/health":
        return web.json_response({"message": "OK"})
    if provider in failing:
        return web.json_response({"error": "Failed to list models"}, status=502)
    models = [{"id": f"{provider}/{name}"} for name in ("large", "small")]
    return web.json_response({"object": "list", "data": models})


def upstreams(environ: Mapping[str, str]) -> dict[str, Upstream]:
    """Return the providers that the environment configures, by id."""
    urls = {name.removesuffix("_API_URL"): url for name, url in environ.items() if name.endswith("_API_URL")}
    return {name.lower(): Upstream(url, environ.get(f"{name}_API_KEY", "")) for name, url in urls.items()}


class Gateway:
    """Forwards requests for `provider/model` to the provider."""

    def __init__(self, providers: Mapping[str, Upstream]) -> None:
        self._providers = providers

    def app(self) -> web.Application:
        """Return the server, with its connections to providers."""
        app = web.Application()
        app.router.add_get("/health", _health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.cleanup_ctx.append(self._connected)
        return app

    async def _connected(self, _: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(timeout=_PATIENCE) as self._session:
            yield

    async def _models(self, request: web.Request) -> web.Response:
        provider = self._providers.get(request.query.get("provider", ""))
        if provider is None or not provider.key:
            return web.json_response({"error": "Provider requires an API key"}, status=400)
        status, body = await self._forwarded("GET", provider, "models")
        if status != 200:
            return web.json_response({"error": "Failed to list models"}, status=502)
        return web.Response(body=body, content_type="application/json")

    async def _chat(self, request: web.Request) -> web.Response:
        asked: Json = await request.json()
        name, _, model = str(asked.get("model", "")).partition("/")
        provider = self._providers.get(name)
        if provider is None:
            return web.json_response({"error": "Unable to determine provider"}, status=400)
        status, body = await self._forwarded("POST", provider, "chat/completions", {**asked, "model": model})
        return web.Response(body=body, status=status, content_type="application/json")

    async def _forwarded(
        self, method: str, provider: Upstream, path: str, body: Json | None = None
    ) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {provider.key}", "Content-Type": "application/json"}
        data = msgspec.json.encode(body) if body is not None else None
        try:
            async with self._session.request(method, f"{provider.url}/{path}", data=data, headers=headers) as reply:
                return reply.status, await reply.read()
        except (aiohttp.ClientError, TimeoutError):
            return 502, b"{}"


async def _health(_: web.Request) -> web.Response:
    return web.json_response({"message": "OK"})


def _tls(environ: Mapping[str, str]) -> ssl.SSLContext | None:
    if not environ.get("SERVER_TLS_CERT_PATH"):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(environ["SERVER_TLS_CERT_PATH"], environ["SERVER_TLS_KEY_PATH"])
    return context


def main() -> None:
    """Serve until stopped, at the address that the variables of the image name."""
    environ = os.environ
    host, port = environ.get("SERVER_HOST", "127.0.0.1"), int(environ.get("SERVER_PORT", "8080"))
    web.run_app(
        Gateway(upstreams(environ)).app(),
        host=host,
        port=port,
        ssl_context=_tls(environ),
        loop=asyncio.new_event_loop(),
    )


if __name__ == "__main__":
    main()
