"""What the router of a canary adds to a request, beside traefik with the same weights; both lead to the same server.

The floor is the same request sent to the server itself. Every request has a new connection.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import aiohttp
import msgspec
import yaml

from bench.engine import LAST
from bench.report import Row
from modelyard.core.errors import ModelyardError
from modelyard.kinds.shared.envoy import Address, Proxy
from modelyard.kinds.shared.envoy_router import router_bootstrap, router_files
from modelyard.local.envoy import bootstrap_words, envoy_program
from modelyard.local.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_WEIGHTS: Final = {"primary": 80, "canary": 20}
_DIRECT: Final = "direct"
_REQUESTS: Final = 1000
_STREAMS: Final = 500
_START_SECONDS: Final = 30.0
_PATIENCE: Final = aiohttp.ClientTimeout(total=120)


async def router() -> list[Row]:
    """Measure the router and traefik, in turn with the server itself."""
    engine, envoy, admin, traefik = free_ports(4)
    with tempfile.TemporaryDirectory(prefix="modelyard-router-") as folder:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(_running(engine, sys.executable, "-m", "bench.engine", str(engine)))
            await stack.enter_async_context(_running(envoy, *_envoy(Path(folder), engine, envoy, admin)))
            await stack.enter_async_context(_running(traefik, *_traefik(Path(folder), engine, traefik)))
            ports = {_DIRECT: engine, "the router": envoy, "traefik": traefik}
            taken = await _first_bytes(ports)
            held = {name: await _streams(port) for name, port in ports.items()}
    return [
        *_added("the router", taken, goal=1.0),
        *_added("traefik", taken),
        *(_held(name, held) for name in ports if name != _DIRECT),
    ]


def _held(name: str, seconds: dict[str, float]) -> Row:
    through, direct = seconds[name], seconds[_DIRECT]
    return Row(f"{_STREAMS} parallel streams through {name}", through, "s", direct, through / direct)


def _added(name: str, taken: dict[str, float], goal: float | None = None) -> list[Row]:
    through, direct = taken[name], taken[_DIRECT]
    return [
        Row(f"first byte through {name}, median", through, "ms", direct, through / direct),
        Row(f"added by {name}, median", through - direct, "ms", goal=goal),
    ]


def _envoy(folder: Path, engine: int, port: int, admin: int) -> list[str]:
    program, place = envoy_program(), Address("127.0.0.1", engine)
    if program is None:
        raise ModelyardError("there is no Envoy for this platform; measure on Linux or macOS")
    for name, text in router_files(_WEIGHTS).data.items():
        (folder / name).write_text(text)
    proxy = Proxy(Address("127.0.0.1", port), str(folder), Address("127.0.0.1", admin))
    bootstrap = router_bootstrap(proxy, dict.fromkeys(_WEIGHTS, place))
    return [str(program), *bootstrap_words(bootstrap), "--disable-hot-restart", "--concurrency", "2", "-l", "error"]


def _traefik(folder: Path, engine: int, port: int) -> list[str]:
    one = {"loadBalancer": {"servers": [{"url": f"http://127.0.0.1:{engine}"}]}}
    split = {"weighted": {"services": [{"name": name, "weight": weight} for name, weight in _WEIGHTS.items()]}}
    services = {**dict.fromkeys(_WEIGHTS, one), "split": split}
    routers = {"all": {"rule": "PathPrefix(`/`)", "service": "split", "entryPoints": ["web"]}}
    file = folder / "traefik.yaml"
    file.write_text(yaml.safe_dump(msgspec.to_builtins({"http": {"routers": routers, "services": services}})))
    program = str(Path(sys.executable).with_name("traefik"))
    return [program, f"--entrypoints.web.address=127.0.0.1:{port}", f"--providers.file.filename={file}"]


@asynccontextmanager
async def _running(port: int, *words: str) -> AsyncIterator[None]:
    """Run a server for as long as the block lasts, which begins when it answers."""
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not await _answers(port):
                await asyncio.sleep(0.05)
        yield
    finally:
        process.kill()
        await process.wait()


async def _answers(port: int) -> bool:
    try:
        async with aiohttp.request("POST", f"http://127.0.0.1:{port}/") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def _first_bytes(ports: dict[str, int]) -> dict[str, float]:
    """Return the median milliseconds to the first byte, asked in turn so that all have the same weather."""
    taken: dict[str, list[float]] = {name: [] for name in ports}
    for _ in range(_REQUESTS):
        for name, port in ports.items():
            taken[name].append(await _first_byte(port))
    return {name: 1000 * median(times) for name, times in taken.items()}


async def _first_byte(port: int) -> float:
    began = time.perf_counter()
    async with aiohttp.request("POST", f"http://127.0.0.1:{port}/", data=b"{}") as answer:
        await answer.content.readany()
        return time.perf_counter() - began


async def _streams(port: int) -> float:
    """Return how long many streams take that all go on at the same time; every one of them must be whole."""
    began, connector = time.perf_counter(), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=_PATIENCE) as session:
        whole = await asyncio.gather(*(_stream(session, port) for _ in range(_STREAMS)))
    if not all(whole):
        raise ModelyardError(f"{whole.count(False)} of {_STREAMS} streams were cut")
    return time.perf_counter() - began


async def _stream(session: aiohttp.ClientSession, port: int) -> bool:
    async with session.post(f"http://127.0.0.1:{port}/stream", data=b"{}") as answer:
        return (await answer.read()).endswith(LAST)
