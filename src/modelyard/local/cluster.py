"""A cluster for development and tests: a real control plane with one simulated node, as envtest with kwok.

The tests share one, and `make cluster` (`python -m modelyard.local.cluster`) runs one until Ctrl-C and then leaves
nothing behind. The programs come from the folder that `KUBEBUILDER_ASSETS` names.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.local.controlplane import ControlPlane
from modelyard.local.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from modelyard.local.raw_client import RawClient

ASSETS = "KUBEBUILDER_ASSETS"


class Cluster(Struct, frozen=True):
    """A running control plane and its simulated nodes."""

    controlplane: ControlPlane
    simulation: Simulation

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the administrator."""
        return self.controlplane.kubeconfig


@asynccontextmanager
async def running_cluster(
    folder: Path, assets: Path, prepare: Callable[[RawClient], Awaitable[None]] | None = None
) -> AsyncIterator[Cluster]:
    """Run a cluster with one big node, `simulated-0`, while the block lasts.

    `prepare` gets the administrator's client before the controllers start, as that of `ControlPlane.start`.
    """
    controlplane = ControlPlane(folder, assets, durable=False)
    simulation = Simulation(controlplane)
    await controlplane.start(partial(prepare, controlplane.admin) if prepare else None)
    try:
        await simulation.start()
        await simulation.add_node("simulated-0", cpu="1000", memory="4Ti", gpus=64)
        yield Cluster(controlplane, simulation)
    finally:
        await simulation.stop()
        await controlplane.stop()


async def serve(assets: Path) -> None:
    """Run a cluster until SIGINT or SIGTERM."""
    stopped = asyncio.Event()
    for reason in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(reason, stopped.set)
    with tempfile.TemporaryDirectory(prefix="modelyard-cluster-") as folder:
        async with running_cluster(Path(folder), assets) as cluster:
            _say(f"export KUBECONFIG={cluster.kubeconfig}")
            _say(f"export PATH={assets}:$PATH   # kubectl is there")
            _say("The cluster runs until Ctrl-C.")
            await stopped.wait()


def main() -> int:
    """Run a cluster in the foreground, and return the exit code."""
    assets = os.environ.get(ASSETS)
    if not assets:
        _say(f"{ASSETS} is not set; run `make cluster`, or set it to the output of `make -s controlplane-path`")
        return 2
    try:
        asyncio.run(serve(Path(assets)))
    except ModelyardError as error:
        _say(f"The cluster did not start: {error}")
        return 1
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
