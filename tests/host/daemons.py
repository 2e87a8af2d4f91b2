"""Daemons under test: real processes in folders of their own, called as the operator and clients would."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from modelyard.local.node.process.procfs import pids_with
from modelyard.local.node.process.reaper import mark
from modelyard.local.ports import free_ports

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

Json = dict[str, Any]

DATA = Path(__file__).parents[1] / "data"
YARD = f"file://{DATA / 'yard.gguf'}"
GREEN = f"file://{DATA / 'yard-green.gguf'}"
SMALL = "64Mi"
TOKEN = "a token of tests"
SECONDS = 60.0
STAND_IN = (sys.executable, str(Path(__file__).with_name("engine.py")))
"""By its path: an engine runs in a folder of its own."""


class Answer:
    """What a daemon answered."""

    def __init__(self, status: int, headers: Json, text: str) -> None:
        self.status, self.headers, self.text = status, headers, text

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def code(self) -> tuple[int, str]:
        """The status and the code of an error."""
        return self.status, self.body["error"]["code"]


class Daemon:
    """One state folder, and the `modelyard host` that runs in it. With `trust` it is called by HTTPS.

    `open_files` is the soft limit that it starts with; 0: that of this process.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        trust: ssl.SSLContext | None = None,
        makes_token: bool = False,
        address: str = "127.0.0.1",
        port: int = 0,
        open_files: int = 0,
    ) -> None:
        self.folder, self.address, self._trust = folder, address, trust
        self._before = ("sh", "-c", f'ulimit -Sn {open_files}; exec "$@"', "sh") if open_files else ()
        self._options = options if makes_token else (f"--token-file={folder / 'token'}", *options)
        self.state = folder / "state"
        self.log = folder / "log"
        self.port = port or free_ports(1)[0]
        self.url = f"{'https' if trust else 'http'}://{address}:{self.port}"
        self._process: asyncio.subprocess.Process | None = None
        folder.mkdir(exist_ok=True, parents=True)
        (folder / "token").write_text(f"{TOKEN}\n")

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    @property
    def engines(self) -> list[int]:
        """The processes that carry the mark of its state folder: engines and downloads."""
        return sorted(pids_with(mark(self.state)))

    async def start(self) -> None:
        words = (f"--listen={self.address}:{self.port}", f"--dir={self.state}", f"--allow-root={DATA}")
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(*self._before, sys.executable, "-m", "modelyard", "host", *words, *self._options),
                stdout=log,
                stderr=log,
                # Engines that all use all cores are in each other's way.
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        async with asyncio.timeout(SECONDS):
            while not await self.answers():
                assert self._process.returncode is None, self.log.read_text()
                await asyncio.sleep(0.05)

    async def answers(self) -> bool:
        """Whether it takes connections."""
        try:
            await self.call("GET", "/healthz")
        except aiohttp.ClientError:
            return False
        return True

    async def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal, and return its exit code."""
        assert self._process
        if self._process.returncode is None:
            self._process.send_signal(how)
        async with asyncio.timeout(SECONDS):
            return await self._process.wait()

    async def call(self, method: str, path: str, body: Any = None, *, token: str = TOKEN) -> Answer:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        data = None if body is None else BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        # As it is: slashes of an id are written as %2F.
        url = URL(f"{self.url}{path}", encoded=True)
        async with aiohttp.ClientSession() as session:
            async with session.request(method, url, data=data, headers=headers, ssl=self._trust or True) as response:
                return Answer(response.status, dict(response.headers), await response.text())

    async def load(self, model: str, **more: Any) -> Answer:
        return await self.call("POST", "/admin/models", {"model": model, "memory": SMALL, **more})

    async def ready(self, model: str, **more: Any) -> Json:
        """Load a model, and return its entry when it is ready."""
        answer = await self.load(model, **more)
        assert answer.status in (200, 202), answer.text
        return await self.until(model, lambda entry: entry["state"] == "ready")

    async def entry(self, model: str) -> Json:
        answer = await self.call("GET", f"/admin/models/{quote(model, safe='')}")
        return answer.body if answer.status == 200 else {"state": "gone"}

    async def until(self, model: str, holds: Callable[[Json], bool]) -> Json:
        """Return the entry of a model when it is as it should be; `gone` is the state of one that is not listed."""
        seen: list[Json] = []
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    seen.append(await self.entry(model))
                    if holds(seen[-1]):
                        return seen[-1]
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{seen[-1]}\n{self.log.read_text()}") from None

    async def ask(self, model: str, **more: Any) -> Answer:
        """Ask a model who it is."""
        messages = [{"role": "user", "content": "Which model are you?"}]
        body = {"model": model, "messages": messages, "temperature": 0, **more}
        return await self.call("POST", "/v1/chat/completions", body, token="")


def said(answer: Answer) -> str:
    """Return what a model has answered in one piece."""
    assert answer.status == 200, answer.text
    return str(answer.body["choices"][0]["message"]["content"])


@asynccontextmanager
async def running(folder: Path, *options: str, **more: Any) -> AsyncIterator[Daemon]:
    """Run a daemon while the block lasts, and see that it leaves no process behind."""
    daemon = Daemon(folder, *options, **more)
    try:
        await daemon.start()
        yield daemon
    finally:
        await daemon.end()
    async with asyncio.timeout(SECONDS):
        while daemon.engines:
            await asyncio.sleep(0.05)


def stand_in(folder: Path) -> str:
    """Return the option that makes a daemon use the stand-in for every GGUF."""
    file = folder / "engines.yaml"
    folder.mkdir(exist_ok=True, parents=True)
    file.write_text(json.dumps({"llamacpp": {"command": STAND_IN}}))
    return f"--engines={file}"
