"""The host daemon: what its proxy adds to the first token of a stream, and how many streams it keeps.

The floor is the same request sent to the engine itself. First tokens are those of a real llama.cpp with the model that
comes with the package; for many streams the engine is one that streams as it is told, because a real one has few slots.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import aiohttp
from msgspec import Struct

from bench.report import Row
from modelyard.core.errors import ModelyardError
from modelyard.host.access import read_token
from modelyard.local.node.process.procfs import pids_with
from modelyard.local.node.process.reaper import mark
from modelyard.local.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_ROOT: Final = Path(__file__).parents[1]
_MODELS: Final = _ROOT / "src" / "modelyard" / "data"
_MODEL: Final = f"file://{_MODELS / 'yard.gguf'}"
_ENGINE: Final = (sys.executable, str(_ROOT / "tests" / "host" / "engine.py"))
_QUESTION: Final = {
    "model": _MODEL,
    "messages": [{"role": "user", "content": "Which model are you?"}],
    "temperature": 0,
    "stream": True,
}
_PIECES: Final = 50
_SLOW: Final = {"model": _MODEL, "pieces": _PIECES, "every": 0.1}
_REQUESTS: Final = 300
_STREAMS: Final = 500
_SECONDS: Final = 120.0


class Host(Struct, frozen=True):
    """A daemon that serves one model."""

    url: str
    direct: str
    """Of its engine."""


async def host() -> list[Row]:
    """Measure the proxy of a daemon."""
    async with _running() as real:
        through, direct = await _first_tokens(real)
    async with _running(*_ENGINE) as many:
        passed, floor = [await _streams(url) for url in (many.url, many.direct)]
    return [
        Row("first token of a stream, median", through, "ms", direct),
        Row("added by the daemon, median", through - direct, "ms", goal=1.0),
        Row(f"{_STREAMS} parallel streams, all whole", passed, "s", floor, passed / floor),
    ]


@asynccontextmanager
async def _running(*engine: str) -> AsyncIterator[Host]:
    """Run a daemon with one model while the block lasts, by another engine if one is named."""
    with tempfile.TemporaryDirectory(prefix="modelyard-host-") as name:
        folder, (port,) = Path(name), free_ports(1)
        (folder / "engines.yaml").write_text(json.dumps({"llamacpp": {"command": engine}}))
        words = (f"--listen=127.0.0.1:{port}", f"--dir={folder / 'state'}", f"--allow-root={_MODELS}")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "modelyard", "host", *words, f"--engines={folder / 'engines.yaml'}"),
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(_SECONDS):
                await _until_ready(f"http://127.0.0.1:{port}", folder / "state")
            paths = (
                f"http://127.0.0.1:{place}/v1/chat/completions" for place in (port, _engine_port(folder / "state"))
            )
            yield Host(*paths)
        finally:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def _until_ready(url: str, state: Path) -> None:
    while True:
        try:
            headers = {"Authorization": f"Bearer {read_token(state / 'token')}"}
            body = {"model": _MODEL, "memory": "64Mi"}
            async with aiohttp.request("POST", f"{url}/admin/models", json=body, headers=headers) as answer:
                if (await answer.json())["state"] == "ready":
                    return
        except (aiohttp.ClientError, ModelyardError):
            pass  # it has not started yet
        await asyncio.sleep(0.1)


def _engine_port(state: Path) -> int:
    (pid,) = pids_with(mark(state))
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return int(words[words.index("--port") + 1])


async def _first_tokens(served: Host) -> tuple[float, float]:
    """Ask both ways in turn, each time on a new connection; return the medians in milliseconds."""
    taken: dict[str, list[float]] = {served.url: [], served.direct: []}
    for _ in range(_REQUESTS):
        for url, times in taken.items():
            times.append(await _first_token(url))
    through, direct = (1000 * median(times) for times in taken.values())
    return through, direct


async def _first_token(url: str) -> float:
    began = time.perf_counter()
    async with aiohttp.request("POST", url, json=_QUESTION) as answer:
        answer.raise_for_status()
        await answer.content.readany()
        taken = time.perf_counter() - began
        await answer.read()
    return taken


async def _streams(url: str) -> float:
    """Return how long many streams take that all go on at the same time; every one of them must be whole."""
    began = time.perf_counter()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=_SECONDS)) as session:
        whole = await asyncio.gather(*(_is_whole(session, url) for _ in range(_STREAMS)))
    if not all(whole):
        raise ModelyardError(f"{whole.count(False)} of {_STREAMS} streams were cut")
    return time.perf_counter() - began


async def _is_whole(session: aiohttp.ClientSession, url: str) -> bool:
    async with session.post(url, json=_SLOW) as answer:
        text = await answer.read()
    return text.count(b"\n\n") == _PIECES + 1 and text.endswith(b"data: [DONE]\n\n")
