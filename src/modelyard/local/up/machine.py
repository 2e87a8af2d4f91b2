"""Run everything that makes this machine a cluster: each part is started after those it needs, and stopped before them.

The order is metrics server, control plane, CRDs, proxy and provisioner, node with its server, door, operator, page.
Programs that end by themselves are started again. `run` runs it, and applies what the user wants to it.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from msgspec import Struct, structs

from modelyard.core.resources import NODE, Key
from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.errors import KubeError
from modelyard.kube.transport import HttpTransport
from modelyard.local.controlplane import ControlPlane
from modelyard.local.envoy import MISSING
from modelyard.local.node.metrics.metrics_server import MetricsServer
from modelyard.local.node.node import NodeSettings, running_node
from modelyard.local.node.process.images import ImageTable
from modelyard.local.node.proxy.addresses import HostPort, PodAddresses
from modelyard.local.node.proxy.service_proxy import ServiceProxy
from modelyard.local.node.server.kubelet_server import KubeletServer
from modelyard.local.node.storage.provisioner import VolumeProvisioner
from modelyard.local.ports import keep_ports
from modelyard.local.program import Program
from modelyard.local.up.door import Door, make_door
from modelyard.local.up.install import install
from modelyard.local.up.metrics_api import SERVER_NAME, register_metrics
from modelyard.local.up.operator_flags import FLAGS
from modelyard.local.up.page import Page
from modelyard.local.up.reset_status import reset_status
from modelyard.local.up.state_folder import StateFolder
from modelyard.local.up.supervise import supervise
from modelyard.manifests.rbac import NAME, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence

# Not the hostname: pods stay bound to their node, and laptops change their hostname with the network.
NODE_NAME: Final = "this-machine"
_POLL_SECONDS: Final = 0.05
_OPERATOR_GROUPS: Final = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")


class Progress(Protocol):
    """What shows the user how far the start is; `Screen` does."""

    def begin(self, step: str, detail: str = "") -> None:
        """Show that a step has begun, or how far it is."""

    def done(self, step: str, detail: str = "") -> None:
        """Show that a step is done."""

    def say(self, line: str) -> None:
        """Show a line of its own."""


class MachineSettings(Struct, frozen=True):
    """The state folder, the programs, the rules for images and the port of the door of a machine."""

    folder: StateFolder
    assets: Path
    images: ImageTable
    door_port: int | None = None
    """The port of the door that the user wants; None: any."""
    host_networks: tuple[str, ...] = ()
    """Where InferenceHosts may be; empty: nowhere that is not public."""


class Machine(Struct, frozen=True):
    """A machine whose control plane, node and operator run."""

    controlplane: ControlPlane
    client: Client
    """A client with the rights of the administrator."""
    addresses: PodAddresses
    proxy: ServiceProxy
    door: Door | None = None
    """The one address for all models; None: there is no Envoy for this platform."""
    page: Page | None = None
    """The page for browsers; None: not yet."""


@asynccontextmanager
async def running_machine(settings: MachineSettings, progress: Progress) -> AsyncIterator[Machine]:
    """Run everything while the block lasts. If a part fails for good, the block is cancelled and the error raised."""
    async with asyncio.TaskGroup() as group, AsyncExitStack() as stack:
        controlplane = ControlPlane(settings.folder.path, settings.assets)
        transport = HttpTransport(from_kubeconfig([controlplane.kubeconfig]))
        stack.push_async_callback(transport.close)
        proxy = ServiceProxy(addresses := PodAddresses(), _place(controlplane.url))
        machine = Machine(controlplane, Client(transport), addresses, proxy)
        ports = keep_ports(settings.folder.path / "node-ports.json", ("kubelet", "metrics"))
        # Before the API server, which would report an API without a server, and delete no namespace.
        await stack.enter_async_context(_metrics_server(machine, settings).serving(ports["metrics"]))
        await stack.enter_async_context(_control_plane(machine, settings, ports["metrics"], group, progress))
        await stack.enter_async_context(_node(machine, settings, ports["kubelet"], group, progress))
        door = await stack.enter_async_context(_door(machine, settings, group, progress))
        await stack.enter_async_context(_operator(machine, settings, group, progress))
        page = Page(settings.folder.path, settings.folder.kubeconfig)
        await stack.enter_async_context(_background(group, page.run(progress.say)))
        yield structs.replace(machine, door=door, page=page)


def _metrics_server(machine: Machine, settings: MachineSettings) -> MetricsServer:
    trust = machine.controlplane.extension_trust(SERVER_NAME)
    return MetricsServer(settings.folder.path, machine.client, NODE_NAME, trust)


@asynccontextmanager
async def _control_plane(
    machine: Machine, settings: MachineSettings, metrics_port: int, group: asyncio.TaskGroup, progress: Progress
) -> AsyncIterator[None]:
    controlplane = machine.controlplane

    async def prepare() -> None:
        progress.done("API server", controlplane.url)
        progress.begin("definitions")
        await install(machine.client)
        await register_metrics(machine.client, metrics_port, controlplane.ca)
        # Before the controllers start: they would believe that the pods of the last start are ready.
        await reset_status(machine.client, NODE_NAME)
        progress.done("definitions")
        progress.begin("controllers")

    progress.begin("API server")
    await controlplane.start(prepare)
    try:
        progress.done("controllers")
        _point_to(settings.folder.kubeconfig, controlplane.kubeconfig)
        async with _supervised(controlplane.programs, group, progress):
            yield
    finally:
        await controlplane.stop()


@asynccontextmanager
async def _node(
    machine: Machine, settings: MachineSettings, port: int, group: asyncio.TaskGroup, progress: Progress
) -> AsyncIterator[None]:
    progress.begin("node")
    state, client, proxy = settings.folder.path, machine.client, machine.proxy
    node_settings = NodeSettings(
        client=client,
        state=state,
        name=NODE_NAME,
        images=settings.images,
        addresses=machine.addresses,
        service_addresses=lambda: proxy.service_addresses,
        kubelet_port=port,
        drain=proxy.drain,
    )
    async with (
        _background(group, proxy.run(client)),
        _background(group, VolumeProvisioner(client, state).run()),
        # Before the node: processes learn the addresses of Services when they start, and not later.
        _after(proxy.synced()),
        running_node(node_settings) as pods,
        KubeletServer(state, pods, machine.controlplane.node_trust()).serving(port),
    ):
        progress.done("node", await _described(client))
        yield


@asynccontextmanager
async def _door(
    machine: Machine, settings: MachineSettings, group: asyncio.TaskGroup, progress: Progress
) -> AsyncIterator[Door | None]:
    progress.begin("door")
    # After the node, which waits until the last one is reaped: before that, its Envoy may still hold the port.
    door = make_door(settings.folder.path, settings.door_port, machine.proxy)
    if door is None:
        progress.done("door", f"{MISSING}; ask each service at its own address")
        yield None
        return
    async with (
        _background(group, door.run(machine.client)),
        _after(door.written()),
        _running(door.program, group, progress),
    ):
        progress.done("door", door.url)
        yield door


@asynccontextmanager
async def _operator(
    machine: Machine, settings: MachineSettings, group: asyncio.TaskGroup, progress: Progress
) -> AsyncIterator[None]:
    progress.begin("operator")
    async with _running(_operator_program(machine.controlplane, settings.host_networks), group, progress):
        progress.done("operator")
        yield


def _operator_program(controlplane: ControlPlane, host_networks: Sequence[str]) -> Program:
    """Return the operator as a child process, under the role that `deploy/` gives it in a cluster."""
    # Also when it is empty: what it may check is open to it, but it must not control machines unasked.
    hosts = f"--host-networks={','.join(host_networks)}"
    # By certificate: a token of a service account expires after a day, and this may run for weeks.
    kubeconfig = controlplane.client_kubeconfig(f"system:serviceaccount:{NAMESPACE}:{NAME}", _OPERATOR_GROUPS)
    return Program(
        [sys.executable, "-P", "-m", "modelyard.local.lifeline", "modelyard", "run", *FLAGS, hosts],
        log=controlplane.folder / "logs" / "operator.log",
        name="operator",
        env={"KUBECONFIG": str(kubeconfig)},
    )


@asynccontextmanager
async def _running(program: Program, group: asyncio.TaskGroup, progress: Progress) -> AsyncIterator[None]:
    await program.start()
    try:
        async with _supervised([program], group, progress):
            yield
    finally:
        await program.stop()


@asynccontextmanager
async def _supervised(programs: Sequence[Program], group: asyncio.TaskGroup, progress: Progress) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for program in programs:
            await stack.enter_async_context(_background(group, supervise(program, progress.say)))
        yield


@asynccontextmanager
async def _background(group: asyncio.TaskGroup, work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    task = group.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def _after(work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    await work
    yield


async def _described(client: Client) -> str:
    """Wait until the Node shows its capacity, and return that in words."""
    while True:
        try:
            capacity = (await client.get(NODE, Key("", NODE_NAME))).status["capacity"]
        except (KubeError, KeyError):
            await asyncio.sleep(_POLL_SECONDS)
            continue
        gpus = capacity.get("nvidia.com/gpu", "no")
        memory = int(capacity["memory"].removesuffix("Ki")) / 2**20
        return f"{capacity['cpu']} CPUs, {memory:.1f} GiB of memory, {gpus} GPUs"


def _point_to(link: Path, target: Path) -> None:
    """Make a symbolic link to the administrator's kubeconfig, replacing the old one in one step."""
    fresh = link.with_name(f".{link.name}.partial")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target.relative_to(link.parent))
    fresh.replace(link)


def _place(url: str) -> HostPort:
    parts = urlsplit(url)
    assert parts.hostname, "a control plane listens somewhere"
    assert parts.port, "a control plane listens somewhere"
    return HostPort(parts.hostname, parts.port)
