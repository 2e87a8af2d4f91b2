"""A server that speaks the part of the hub's API that a download needs, with the bytes on another host."""

from __future__ import annotations

import hashlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.weights.fileserver import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = "org/repo"
TOKEN = "hidden-token"


class HubServer:
    """One repository; `private` asks for the token, `trouble` is what every question is answered with."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.private = False
        self.trouble: tuple[int, str] | None = None
        self.cdn_headers: list[dict[str, str]] = []
        self.api_calls = 0
        self.lies: dict[str, str] = {}
        self.port = self.cdn_port = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.private and request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _refusal(401, "RepoNotFound")
        if self.trouble:
            return _refusal(*self.trouble)
        if request.path == f"/api/models/{REPO}/revision/main":
            self.api_calls += 1
            return web.json_response(self._info())
        name = request.path.removeprefix(f"/{REPO}/resolve/{COMMIT}/")
        if name in self.files:
            raise web.HTTPFound(f"http://localhost:{self.cdn_port}/{name}?Signature=hidden-signature")
        return _refusal(404, "RepoNotFound" if REPO not in request.path else "RevisionNotFound")

    def _info(self) -> dict[str, Any]:
        return {"id": REPO, "sha": COMMIT, "siblings": [self._sibling(name) for name in self.files]}

    def _sibling(self, name: str) -> dict[str, Any]:
        content = self.files[name]
        said = {"rfilename": name, "size": len(content), "blobId": hashlib.sha1(content).hexdigest()}
        if not name.endswith(".gguf"):
            return said
        sha256 = self.lies.get(name, hashlib.sha256(content).hexdigest())
        return {**said, "lfs": {"sha256": sha256, "size": len(content), "pointerSize": 134}}

    async def cdn(self, request: web.Request) -> web.StreamResponse:
        self.cdn_headers.append(dict(request.headers))
        return web.Response(body=self.files[request.path.removeprefix("/")], headers={"ETag": '"of-the-cdn"'})


@asynccontextmanager
async def hub_server() -> AsyncIterator[HubServer]:
    """Serve the hub and its CDN on two ports."""
    server = HubServer()
    async with serving(server.handle) as server.port, serving(server.cdn) as server.cdn_port:
        yield server


def _refusal(code: int, name: str) -> web.Response:
    return web.json_response({"error": name}, status=code, headers={"X-Error-Code": name, "X-Error-Message": name})
