"""The life of a fleet: three daemons with real engines, a control plane and an operator, in a network of their own.

`test_fleet` runs it as a process, because a network namespace belongs to one. Its exit code is the verdict.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelyard.core.resources import ENDPOINT_SLICE, SECRET
from modelyard.host.join import Joining, manifests
from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.transport import HttpTransport
from modelyard.local.controlplane import ControlPlane
from modelyard.local.up.install import install
from tests.host.daemons import TOKEN, YARD, Daemon, running, said
from tests.support.fleets import HOSTS, MODELS, create_model, is_ready, until_ready
from tests.support.operators import NAMESPACE, running_operator
from tests.support.own_network import bring_up
from tests.support.recorder import Recorder, recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.local.raw_client import RawClient

Json = dict[str, Any]

PORT = 11434
ADDRESSES = {name: f"10.77.0.{number}" for number, name in enumerate(("mac", "mini", "studio"), start=1)}
POLICY = '{"remote_hosts": ["10.77.0.0/24"]}'
WITHDRAWN_SECONDS = 15.0
"""The endpoint of a host that is killed is out within this time."""
RETURN_SECONDS = 90.0
"""A host that returns is believed half a minute after it was found gone, so that one that flaps changes nothing."""


async def main(assets: Path, folder: Path) -> None:
    """Start everything, and see that one life goes as it should."""
    bring_up(ADDRESSES.values())
    async with AsyncExitStack() as stack:
        async with asyncio.TaskGroup() as starting:
            plane = starting.create_task(stack.enter_async_context(running_controlplane(assets, folder / "cluster")))
            daemons = {
                name: starting.create_task(
                    stack.enter_async_context(running(folder / name, "--memory=256Mi", address=address, port=PORT))
                )
                for name, address in ADDRESSES.items()
            }
        admin, kubeconfig = plane.result()
        await stack.enter_async_context(running_operator(kubeconfig, 1, folder / "operator.log", POLICY=POLICY))
        recorder = await stack.enter_async_context(recording(admin, (MODELS, HOSTS, ENDPOINT_SLICE), "default"))
        await Fleet(admin, recorder, {name: task.result() for name, task in daemons.items()}).live()


@asynccontextmanager
async def running_controlplane(assets: Path, folder: Path) -> AsyncIterator[tuple[RawClient, Path]]:
    """Run an API server that serves our kinds, and yield its administrator and the kubeconfig of the operator.

    Nothing else of a cluster has to do with hosts.
    """
    plane = ControlPlane(folder, assets, workloads=False, durable=False)
    await plane.start()
    client = Client(HttpTransport(from_kubeconfig([plane.kubeconfig])))
    try:
        await install(client)
        yield plane.admin, await plane.service_account_kubeconfig(NAMESPACE, "modelyard")
    finally:
        await client.close()
        await plane.stop()


class Fleet:
    """The hosts and one model of two replicas."""

    def __init__(self, admin: RawClient, recorder: Recorder, daemons: dict[str, Daemon]) -> None:
        self._admin, self._recorder, self._daemons = admin, recorder, daemons

    async def live(self) -> None:
        """Place the model, lose a host, and get it back."""
        for name, daemon in self._daemons.items():
            await self._join(name, daemon)
        await create_model(self._admin, "default", model=YARD, memory="64Mi", replicas=2)
        found = await until_ready(self._recorder, "default")
        lost, kept = (one["host"] for one in found["status"]["placements"])
        (spare,) = ADDRESSES.keys() - {lost, kept}
        await self._ask(lost, kept)
        engines = self._daemons[kept].engines
        await self._lose(lost)
        await self._ask(kept)
        await self._until_published(kept, spare)
        await self._ask(kept, spare)
        await self._return(lost)
        await self._ask(kept, spare)
        self._check_that_nothing_else_moved(lost, kept, spare)
        assert self._daemons[kept].engines == engines

    async def _join(self, name: str, daemon: Daemon) -> None:
        secret, host = manifests(Joining(name, daemon.url, TOKEN, "default"))
        await self._admin.create(SECRET.path("default"), secret)
        await self._admin.create(HOSTS.path("default"), host)

    async def _ask(self, *hosts: str) -> None:
        """Send a request to each published address, which must be those of these hosts."""
        assert published(self._recorder)[-1] == {ADDRESSES[name] for name in hosts}
        for name in hosts:
            assert said(await self._daemons[name].ask(YARD)).startswith("I am Yard, ")

    async def _lose(self, name: str) -> None:
        await self._daemons[name].end(signal.SIGKILL)
        await self._recorder.until(lambda: ADDRESSES[name] not in published(self._recorder)[-1], WITHDRAWN_SECONDS)

    async def _until_published(self, *hosts: str) -> None:
        wanted = {ADDRESSES[name] for name in hosts}
        await self._recorder.until(lambda: published(self._recorder)[-1] == wanted, RETURN_SECONDS)

    async def _return(self, name: str) -> None:
        """Start a daemon again, which loads what it had, and wait until the surplus is gone and its host says so."""
        await self._daemons[name].start()
        await self._recorder.wait_for(
            HOSTS,
            "default",
            name,
            lambda item: is_ready(item) and (item or {})["status"]["modelCount"] == 0,
            RETURN_SECONDS,
        )
        await until_ready(self._recorder, "default")

    def _check_that_nothing_else_moved(self, lost: str, kept: str, spare: str) -> None:
        both, alone, replaced = (
            {ADDRESSES[name] for name in hosts} for hosts in ((lost, kept), (kept,), (kept, spare))
        )
        seen = published(self._recorder)
        assert seen[seen.index(both) :] == [both, alone, replaced], seen
        assert pending(self._recorder) == [[], [lost], []]
        told = {
            name: [count(daemon, event) for event in ("asked to load", "unloaded")]
            for name, daemon in self._daemons.items()
        }
        assert told == {lost: [1, 1], kept: [1, 0], spare: [1, 0]}


def published(recorder: Recorder) -> list[set[str]]:
    """Return which addresses got requests, from one change to the next."""
    slices: dict[str, set[str]] = {}
    seen: list[set[str]] = [set()]
    for version in recorder.log:
        if version.kind == ENDPOINT_SLICE.kind:
            slices[version.name] = ready_addresses(version.object) if version.event != "DELETED" else set()
            now = set[str]().union(*slices.values())
            seen += [now] if now != seen[-1] else []
    return seen


def ready_addresses(part: Json) -> set[str]:
    entries = part.get("endpoints") or ()
    return {address for entry in entries if entry["conditions"]["ready"] for address in entry["addresses"]}


def pending(recorder: Recorder) -> list[list[str]]:
    """Return from which hosts the model was to be unloaded, from one change to the next."""
    seen: list[list[str]] = [[]]
    for version in recorder.history(MODELS, "default", "qwen"):
        now = [one["host"] for one in version.object.get("status", {}).get("pendingUnloads", ())]
        seen += [now] if now != seen[-1] else []
    return seen


def count(daemon: Daemon, event: str) -> int:
    """Return how often the log of a daemon tells of an event."""
    return daemon.log.read_text().count(f'"event": "{event}"')


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
