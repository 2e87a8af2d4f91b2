"""One-machine mode: how fast it answers, what it costs at rest, and what its forwarder adds.

Measured on `modelyard up` as users start it, with the model that comes with the package. The floor at rest is a control
plane without anything in it; the floor of a request is the same request sent to the engine itself.
"""

from __future__ import annotations

import asyncio
import os
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

from bench.process import cpu_seconds, pss_mb
from bench.report import Row
from controlplane import build
from modelyard.core.errors import ModelyardError
from modelyard.core.resources import POD
from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.transport import HttpTransport
from modelyard.local.controlplane import ControlPlane
from modelyard.local.node.process.procfs import tree
from modelyard.local.node.proxy.addresses import HostPort, PodAddresses
from modelyard.local.up.state_folder import StateFolder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

_ENGINE: Final = "modelyard.local.llama_server"
_QUESTION: Final = {"messages": [{"role": "user", "content": "Which model are you?"}], "temperature": 0}
_PORT: Final = 8080
_START_SECONDS: Final = 120.0
# A control plane that has just started fills caches and compiles schemas for a while.
_CALM_SECONDS: Final = 30.0
_REQUESTS: Final = 300
_STREAMS: Final = 200


class Up(Struct, frozen=True):
    """A `modelyard up` that serves."""

    pid: int
    url: str
    """Of the service, at its own address."""
    direct: str
    """Of its engine."""
    seconds: float
    """From the start of the process to the first whole answer."""

    @property
    def pids(self) -> list[int]:
        """All its processes but the model."""
        return [pid for pid in tree(self.pid) if _ENGINE not in _words(pid)]


async def up(rest: float) -> list[Row]:
    """Measure one machine, and for so many seconds at rest."""
    bare = await _bare_cpu(rest)
    with tempfile.TemporaryDirectory(prefix="modelyard-up-") as folder:
        async with running(Path(folder) / "state") as first:
            pass
        async with running(Path(folder) / "state") as second:
            added = await _added(second)
            through, direct = [await _streams(url) for url in (second.url, second.direct)]
            await asyncio.sleep(_CALM_SECONDS)
            memory = sum(pss_mb(pid) for pid in second.pids)
            mine = await _cpu(second.pids, rest)
    return [
        Row("fresh folder to first answer", first.seconds, "s", goal=20.0),
        Row("second start to first answer", second.seconds, "s", goal=20.0),
        Row("memory (PSS) of all but the model", memory, "MB", goal=700.0),
        Row("CPU at rest, of one core", mine, "%", floor=bare),
        Row("CPU at rest above the bare control plane", mine - bare, "%", goal=2.0),
        *added,
        Row(f"{_STREAMS} parallel streams through the forwarder", through, "s", direct, through / direct),
    ]


@asynccontextmanager
async def running(state: Path) -> AsyncIterator[Up]:
    """Run `modelyard up` for as long as the block lasts."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "modelyard", "up", f"--dir={state}"),
        stdout=asyncio.subprocess.DEVNULL,
        env={**os.environ, "KUBEBUILDER_ASSETS": str(build.assets())},
    )
    try:
        async with asyncio.timeout(_START_SECONDS):
            url = await _settled(StateFolder(state), process)
            await _ask(url)
            seconds = time.perf_counter() - began
            yield Up(process.pid, url, await _engine(StateFolder(state)), seconds)
    finally:
        process.send_signal(signal.SIGINT)
        await process.wait()


async def _settled(folder: StateFolder, process: asyncio.subprocess.Process) -> str:
    while (record := folder.read_record()) is None or not record.settled:
        if process.returncode is not None:
            raise ModelyardError(f"`modelyard up` ended with code {process.returncode}")
        await asyncio.sleep(0.02)
    place = next(ports[_PORT] for service, ports in folder.service_addresses().items() if service.name == "yard")
    return f"http://{place}/v1/chat/completions"


async def _engine(folder: StateFolder) -> str:
    client = Client(HttpTransport(from_kubeconfig([folder.kubeconfig])))
    try:
        pods = (await client.list_page(POD, "default", "app=yard")).items
    finally:
        await client.close()
    place = PodAddresses().where(HostPort(pods[0].status["podIP"], _PORT))
    return f"http://{place}/v1/chat/completions"


async def _bare_cpu(seconds: float) -> float:
    with tempfile.TemporaryDirectory(prefix="modelyard-bare-") as folder:
        controlplane = ControlPlane(Path(folder), build.assets())
        await controlplane.start()
        try:
            await asyncio.sleep(_CALM_SECONDS)
            return await _cpu(controlplane.pids.values(), seconds)
        finally:
            await controlplane.stop()


async def _cpu(pids: Iterable[int], seconds: float) -> float:
    """Return the share of one core that processes use, in per cent."""
    counted = list(pids)
    before = sum(map(cpu_seconds, counted))
    await asyncio.sleep(seconds)
    return 100 * (sum(map(cpu_seconds, counted)) - before) / seconds


async def _added(machine: Up) -> list[Row]:
    """Send the same request both ways in turn, each time on a new connection."""
    taken: dict[str, list[float]] = {machine.url: [], machine.direct: []}
    for _ in range(_REQUESTS):
        for url, times in taken.items():
            times.append(await _ask(url))
    through, direct = (1000 * median(times) for times in taken.values())
    return [
        Row("one request, median", through, "ms", direct),
        Row("added by the forwarder, median", through - direct, "ms", goal=2.0),
    ]


async def _ask(url: str) -> float:
    began = time.perf_counter()
    async with aiohttp.request("POST", url, json=_QUESTION) as answer:
        answer.raise_for_status()
        await answer.read()
    return time.perf_counter() - began


async def _streams(url: str) -> float:
    """Return how long many streams take that all go on at the same time; every one of them must be whole."""
    began = time.perf_counter()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
        whole = await asyncio.gather(*(_stream(session, url) for _ in range(_STREAMS)))
    if not all(whole):
        raise ModelyardError(f"{whole.count(False)} of {_STREAMS} streams were cut")
    return time.perf_counter() - began


async def _stream(session: aiohttp.ClientSession, url: str) -> bool:
    async with session.post(url, json={**_QUESTION, "stream": True}) as answer:
        return (await answer.read()).rstrip().endswith(b"data: [DONE]")


def _words(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
