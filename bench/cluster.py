"""A fresh cluster for every measurement, with the same flags for everybody who is measured."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bench import objects
from controlplane import build
from modelyard.core.errors import ModelyardError
from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.transport import HttpTransport
from modelyard.local.controlplane import ControlPlane
from modelyard.local.simulation import Simulation
from modelyard.local.up.install import is_served
from modelyard.manifests.rbac import NAME, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ACCOUNT: Final = (NAMESPACE, NAME)
USER: Final = "system:serviceaccount:" + ":".join(ACCOUNT)
"""Who the API server says the measured program is."""

_DEPLOY: Final = Path(__file__).resolve().parent.parent / "deploy"
_MANIFESTS: Final = tuple(_DEPLOY / name for name in ("crds.yaml", "rbac.yaml", "priority-classes.yaml"))
# Fairness would make sixteen writers wait for each other, and measure its settings instead of the writes.
# Without it only a plain limit of requests in flight is left, which jobs and the simulated nodes reach together.
_FLAGS: Final = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=0",
    "--max-mutating-requests-inflight=0",
)
_INSTALL_SECONDS: Final = 60.0


class Cluster(Struct, frozen=True):
    """A running cluster with the CRDs and the role of `deploy/` installed."""

    controlplane: ControlPlane
    client: Client
    """The administrator's."""
    kubeconfig: Path
    """The one of the service account under which the measured program runs."""

    def log(self, name: str) -> Path:
        """Return where a program of the benchmark writes its output."""
        return self.controlplane.folder / "logs" / f"{name}.log"


@asynccontextmanager
async def fresh_cluster(*, nodes: bool) -> AsyncIterator[Cluster]:
    """Run a cluster for as long as the block lasts: with a big simulated node, or only etcd and API server."""
    with tempfile.TemporaryDirectory(prefix="modelyard-bench-") as folder:
        controlplane = ControlPlane(
            Path(folder), build.assets(), workloads=nodes, durable=False, apiserver_flags=_FLAGS
        )
        await controlplane.start()
        try:
            async with _simulated(controlplane, nodes=nodes), connected(controlplane.kubeconfig) as client:
                kubeconfig = await _install(controlplane)
                await _warm_up(client)
                yield Cluster(controlplane, client, kubeconfig)
        finally:
            await controlplane.stop()


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    """Speak to the API server as the user of a kubeconfig."""
    client = Client(HttpTransport(from_kubeconfig([kubeconfig])))
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def _simulated(controlplane: ControlPlane, *, nodes: bool) -> AsyncIterator[None]:
    if not nodes:
        yield
        return
    simulation = Simulation(controlplane)
    await simulation.start()
    try:
        await simulation.add_node("simulated-0", cpu="1000", memory="4Ti")
        yield
    finally:
        await simulation.stop()


async def _install(controlplane: ControlPlane) -> Path:
    async with asyncio.timeout(_INSTALL_SECONDS):
        await _apply(controlplane)
        kubeconfig = await controlplane.service_account_kubeconfig(*ACCOUNT)
        async with connected(kubeconfig) as client:
            # Without this the first program would pay for the wait.
            while not await is_served(client):
                await asyncio.sleep(0.05)
    return kubeconfig


async def _warm_up(client: Client) -> None:
    # The API server holds back the first object of a new CRD for two seconds. They belong to nobody's figures.
    for subject in objects.SUBJECTS.values():
        for kind, body in objects.manifests(subject, 0):
            first = await client.create(kind.resource, body)
            await client.delete(kind.resource, first.meta.key, first.meta.uid)


async def _apply(controlplane: ControlPlane) -> None:
    process = await asyncio.create_subprocess_exec(
        controlplane.kubectl,
        f"--kubeconfig={controlplane.kubeconfig}",
        "create",
        *(f"--filename={file}" for file in _MANIFESTS),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, complaint = await process.communicate()
    if process.returncode != 0:
        raise ModelyardError(f"the cluster does not take deploy/: {complaint.decode()}")
