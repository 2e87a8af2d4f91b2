"""One-machine mode: how fast it answers, what it costs at rest, and what its forwarder and its door add.

Measured on `modelyard up` as users start it, with the model that comes with the package. The floor at rest is a control
plane without anything in it. What forwarder and door add is measured with `pacer` as engine: the floor of a request is
the same request sent to the engine itself, and for the door the same request sent to the service.
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
import msgspec
import yaml
from msgspec import Struct

from bench import pacer
from bench.process import cpu_seconds, pss_mb
from bench.report import Row
from controlplane import build
from modelyard.core.errors import ModelyardError
from modelyard.core.resources import POD
from modelyard.kinds.inferenceservice.api import RESOURCE as INFERENCE_SERVICE
from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.transport import HttpTransport
from modelyard.local.controlplane import ControlPlane
from modelyard.local.node.process.procfs import tree
from modelyard.local.node.proxy.addresses import HostPort, PodAddresses
from modelyard.local.up.state_folder import StateFolder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

_ENGINE: Final = "modelyard.local.llama_server"
_QUESTION: Final = {"messages": [{"role": "user", "content": "Which model are you?"}], "temperature": 0}
_YARD: Final = "yard"
_PACER: Final = "pacer"
_PORT: Final = 8080
_START_SECONDS: Final = 120.0
# A control plane that has just started fills caches and compiles schemas for a while.
_CALM_SECONDS: Final = 30.0
_SETTLED_SECONDS: Final = 5.0
_REQUESTS: Final = 300
_STREAMS: Final = 500


class Up(Struct, frozen=True):
    """A `modelyard up` that serves."""

    pid: int
    url: str
    """Of the service, at its own address."""
    direct: str
    """Of its engine."""
    door: str
    """Of the door, which leads to the service."""
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
            await asyncio.sleep(_CALM_SECONDS)
            memory = sum(pss_mb(pid) for pid in second.pids)
            mine = await _cpu(second.pids, rest)
            page = await _page(second, Path(folder) / "state", rest)
        async with running(Path(folder) / "state", *_with_pacer(Path(folder)), service=_PACER) as third:
            added = [
                *await _added("the forwarder", third.url, third.direct, goal=2.0),
                *await _added("the door", third.door, third.url, goal=1.0),
                await _streams("the forwarder", third.url, third.direct),
                await _streams("the door", third.door, third.url),
            ]
    return [
        Row("fresh folder to first answer", first.seconds, "s", goal=20.0),
        Row("second start to first answer", second.seconds, "s", goal=20.0),
        Row("memory (PSS) of all but the model", memory, "MB", goal=700.0),
        Row("CPU at rest, of one core", mine, "%", floor=bare),
        Row("CPU at rest above the bare control plane", mine - bare, "%", goal=2.0),
        *page,
        *added,
    ]


def _with_pacer(folder: Path) -> tuple[str, ...]:
    """Write what makes `pacer` a service, and return the options of `modelyard up` for it."""
    rule = {
        "image": f"bench/{_PACER}",
        "program": [sys.executable, str(Path(pacer.__file__))],
        "hostFlag": "--host",
        "portFlag": "--port",
    }
    service = {
        "apiVersion": INFERENCE_SERVICE.api_version,
        "kind": INFERENCE_SERVICE.kind,
        "metadata": {"name": _PACER},
        "spec": {"modelRef": _YARD, "runtime": "generic", "image": f"bench/{_PACER}:1"},
    }
    images, manifest = folder / "images.yaml", folder / "pacer.yaml"
    images.write_text(yaml.safe_dump({"images": [rule]}))
    manifest.write_text(yaml.safe_dump(service))
    return f"--images={images}", "-f", str(manifest)


@asynccontextmanager
async def running(
    state: Path,
    *options: str,
    service: str = _YARD,
    command: Sequence[str] = (sys.executable, "-m", "modelyard"),
    assets: str | None = None,
) -> AsyncIterator[Up]:
    """Run `modelyard up` with these options for as long as the block lasts, and look at one of its services.

    `assets` is the folder of the control plane; None: that of `make`; empty: what the installation brings along.
    """
    folder = str(build.assets()) if assets is None else assets
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(*command, "up", f"--dir={state}", *options),
        stdout=asyncio.subprocess.DEVNULL,
        env={**os.environ, "KUBEBUILDER_ASSETS": folder},
    )
    try:
        async with asyncio.timeout(_START_SECONDS):
            url, door = await _settled(StateFolder(state), process, service)
            await _ask(url)
            seconds = time.perf_counter() - began
            machine = Up(process.pid, url, await _engine(StateFolder(state), service), door, seconds)
        yield machine
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await process.wait()


async def _settled(folder: StateFolder, process: asyncio.subprocess.Process, service: str) -> tuple[str, str]:
    """Wait until all is settled, and return the URL of the service, and that of the door."""
    # The record of the last start is there until this one writes its own.
    while (record := folder.read_record()) is None or record.pid != process.pid or not record.settled:
        if process.returncode is not None:
            raise ModelyardError(f"`modelyard up` ended with code {process.returncode}")
        await asyncio.sleep(0.02)
    place = next(ports[_PORT] for key, ports in folder.service_addresses().items() if key.name == service)
    return f"http://{place}/v1/chat/completions", f"{record.door}/chat/completions"


async def _engine(folder: StateFolder, service: str) -> str:
    client = Client(HttpTransport(from_kubeconfig([folder.kubeconfig])))
    try:
        pods = (await client.list_page(POD, "default", f"app={service}")).items
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


async def _page(machine: Up, state: Path, rest: float) -> list[Row]:
    """Measure the process that the first visitor starts. Before, there is none."""
    if any(map(_is_page, machine.pids)):
        raise ModelyardError("the page runs, though it was not visited")
    port = msgspec.json.decode((state / "page-port.json").read_bytes())["page"]
    async with aiohttp.request("GET", f"http://127.0.0.1:{port}/") as answer:
        await answer.read()
    await asyncio.sleep(_SETTLED_SECONDS)
    (pid,) = filter(_is_page, machine.pids)
    return [
        Row("memory (PSS) of the page, once it was opened", pss_mb(pid), "MB", goal=64.0),
        Row("CPU at rest of the page, of one core", await _cpu([pid], rest), "%", goal=0.5),
    ]


async def _cpu(pids: Iterable[int], seconds: float) -> float:
    """Return the share of one core that processes use, in per cent."""
    counted = list(pids)
    before = sum(map(cpu_seconds, counted))
    await asyncio.sleep(seconds)
    return 100 * (sum(map(cpu_seconds, counted)) - before) / seconds


async def _added(by: str, url: str, floor: str, goal: float) -> list[Row]:
    """Send the same request to the pacer both ways in turn, each time on a new connection."""
    taken: dict[str, list[float]] = {url: [], floor: []}
    for _ in range(_REQUESTS):
        for url, times in taken.items():
            times.append(await _ask(url, _PACER))
    through, direct = (1000 * median(times) for times in taken.values())
    return [
        Row(f"one request through {by}, median", through, "ms", direct, through / direct),
        Row(f"added by {by}, median", through - direct, "ms", goal=goal),
    ]


async def _ask(url: str, model: str = _YARD) -> float:
    began = time.perf_counter()
    async with aiohttp.request("POST", url, json={**_QUESTION, "model": model}) as answer:
        answer.raise_for_status()
        await answer.read()
    return time.perf_counter() - began


async def _streams(by: str, url: str, floor: str) -> Row:
    through, direct = [await _stream_many(each) for each in (url, floor)]
    return Row(f"{_STREAMS} parallel streams through {by}", through, "s", direct, through / direct)


async def _stream_many(url: str) -> float:
    """Return how long many streams take that all go on at the same time; every one of them must be whole."""
    began = time.perf_counter()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
        whole = await asyncio.gather(*(_stream(session, url) for _ in range(_STREAMS)))
    if not all(whole):
        raise ModelyardError(f"{whole.count(False)} of {_STREAMS} streams were cut")
    return time.perf_counter() - began


async def _stream(session: aiohttp.ClientSession, url: str) -> bool:
    async with session.post(url, json={**_QUESTION, "model": _PACER, "stream": True}) as answer:
        return (await answer.read()).rstrip().endswith(b"data: [DONE]")


def _is_page(pid: int) -> bool:
    return "modelyard page --listen-fd" in _words(pid)


def _words(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
