"""An HTTP server on loopback that serves one file, well or badly, as a script says."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    import asyncio
    import ssl

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FileServer:
    """Serves `content` at /model.gguf. The entries of `script` answer one request each; after that all is well."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.etag = _etag(content)
        self.script: list[Handler] = []
        self.otherwise: Handler = self.good
        self.requests: list[web.Request] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/model.gguf"

    def replace(self, content: bytes) -> None:
        self.content, self.etag = content, _etag(content)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        answer = self.script.pop(0) if self.script else self.otherwise
        return await answer(request)

    async def good(self, request: web.Request) -> web.StreamResponse:
        """The whole file, or the rest of it if the version is still the one that was asked for."""
        start = self._start(request)
        headers = {"ETag": self.etag}
        if start is None:
            return web.Response(body=self.content, headers=headers)
        headers["Content-Range"] = f"bytes {start}-{len(self.content) - 1}/{len(self.content)}"
        return web.Response(status=206, body=self.content[start:], headers=headers)

    def _start(self, request: web.Request) -> int | None:
        asked = request.headers.get("Range", "")
        if not asked or request.headers.get("If-Range", self.etag) != self.etag:
            return None
        return int(asked.removeprefix("bytes=").removesuffix("-"))

    async def no_ranges(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self.content, headers={"ETag": self.etag})

    def cut(self, sent: int) -> Handler:
        """Promise everything, send some more bytes, and hang up."""

        async def answer(request: web.Request) -> web.StreamResponse:
            start = self._start(request) or 0
            rest = self.content[start:]
            response = web.StreamResponse(status=206 if start else 200, headers={"ETag": self.etag})
            if start:
                response.headers["Content-Range"] = f"bytes {start}-{len(self.content) - 1}/{len(self.content)}"
            response.content_length = len(rest)
            await response.prepare(request)
            await response.write(rest[:sent])
            assert request.transport is not None
            # An orderly end: a reset would take back bytes that were sent already.
            request.transport.close()
            return response

        return answer

    def held(self, sent: int, release: asyncio.Event) -> Handler:
        """Send some bytes, and the rest only when released."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"ETag": self.etag})
            response.content_length = len(self.content)
            await response.prepare(request)
            await response.write(self.content[:sent])
            await release.wait()
            with suppress(ConnectionError):
                await response.write(self.content[sent:])
            return response

        return answer


def status(code: int, **headers: str) -> Handler:
    """Answer with a status and nothing else."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=code, headers={name.replace("_", "-"): text for name, text in headers.items()})

    return answer


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on a free port of loopback."""
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def file_server(content: bytes) -> AsyncIterator[FileServer]:
    """Serve one file."""
    server = FileServer(content)
    async with serving(server.handle) as server.port:
        yield server


def _etag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:12]}"'
