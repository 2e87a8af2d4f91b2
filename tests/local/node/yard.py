"""A node of ours in the shared cluster, for tests: pods are put on it by name and run as small programs."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.kube import config
from modelyard.kube.client import Client
from modelyard.kube.transport import HttpTransport
from modelyard.local.node.node import NodeSettings, running_node
from modelyard.local.node.pods.node_context import Timings
from modelyard.local.node.process.images import ImageTable, Rule
from modelyard.local.node.proxy.addresses import PodAddresses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from modelyard.local.cluster import Cluster
    from modelyard.local.node.pods.pod_workers import PodWorkers
    from modelyard.local.node.proxy.service_dns import ServiceAddresses
    from modelyard.local.raw_client import RawClient

Json = dict[str, Any]
SECONDS = 60.0

RULES = (
    Rule("test/shell"),
    Rule("test/server", (sys.executable, str(Path(__file__).with_name("server.py"))), host_flag="--host"),
    Rule("test/told", host_env="TOLD_HOST", port_env="TOLD_PORT"),
    Rule("test/absent", ("no-such-program",), install="install no-such-program"),
)
"""`test/shell` and `test/told` run the own command of the container, `test/server` a web server, `test/absent` none."""


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    client = Client(HttpTransport(config.from_kubeconfig([kubeconfig])))
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def node_of(
    kubeconfig: Path, state: Path, name: str, service_addresses: Callable[[], ServiceAddresses] = dict, **timings: float
) -> AsyncIterator[PodWorkers]:
    """Run a node in this process."""
    async with connected(kubeconfig) as client:
        settings = NodeSettings(
            client, state, name, ImageTable(RULES), PodAddresses(), service_addresses, timings=Timings(**timings)
        )
        async with running_node(settings) as pods:
            yield pods


@asynccontextmanager
async def yard_of(
    cluster: Cluster,
    namespace: str,
    state: Path,
    service_addresses: Callable[[], ServiceAddresses] = dict,
    **timings: float,
) -> AsyncIterator[Yard]:
    """Run a node that is named like the namespace."""
    admin = cluster.controlplane.admin
    async with node_of(cluster.kubeconfig, state, namespace, service_addresses, **timings):
        yield Yard(admin, namespace, namespace, state)
    await admin.delete(f"/api/v1/nodes/{namespace}")


class Yard:
    """What a test does to the pods of its node."""

    def __init__(self, admin: RawClient, namespace: str, node: str, state: Path) -> None:
        self.admin, self.namespace, self.node, self.state = admin, namespace, node, state
        self.path = f"/api/v1/namespaces/{namespace}"

    async def create(self, kind: str, name: str, **body: Any) -> Json:
        return await self.admin.create(f"{self.path}/{kind}", {"metadata": {"name": name}, **body})

    async def start(self, *containers: Json, name: str = "pod", **spec: Any) -> Json:
        """Create a pod on the node."""
        return await self.admin.create(f"{self.path}/pods", self.pod(*containers, name=name, **spec))

    def pod(self, *containers: Json, name: str = "pod", **spec: Any) -> Json:
        named = [{"name": f"c{number}", **each} for number, each in enumerate(containers)]
        quiet = {"automountServiceAccountToken": False, "nodeName": self.node, "terminationGracePeriodSeconds": 10}
        return {"metadata": {"name": name}, "spec": {"containers": named, **quiet, **spec}}

    async def until(self, reached: Callable[[Json], bool], pod: str = "pod") -> Json:
        """Wait until a pod is as expected; return it."""
        return await until(self.admin, f"{self.path}/pods/{pod}", reached)

    async def ready(self, pod: str = "pod") -> Json:
        return await self.until(is_ready, pod)

    async def over(self, pod: str = "pod") -> Json:
        return await self.until(lambda seen: seen["status"].get("phase") in {"Succeeded", "Failed"}, pod)

    async def gone(self, pod: str = "pod") -> None:
        async with asyncio.timeout(SECONDS):
            while await self.admin.answers(f"{self.path}/pods/{pod}"):
                await asyncio.sleep(0.05)

    async def delete(self, pod: str = "pod") -> None:
        await self.admin.delete(f"{self.path}/pods/{pod}")

    def log(self, pod: Json, container: str = "c0", file: str = "log") -> str:
        return (self.folder(pod) / "containers" / container / file).read_text()

    def folder(self, pod: Json) -> Path:
        return self.state / "pods" / str(pod["metadata"]["uid"])


async def until(admin: RawClient, path: str, reached: Callable[[Json], bool]) -> Json:
    seen: Json = {}
    try:
        async with asyncio.timeout(SECONDS):
            while not reached(seen := await admin.get(path)):
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"{path} never became what was expected: {json.dumps(seen.get('status'), indent=1)}")
    return seen


def runs(pid: int | str) -> bool:
    """Whether a process runs. One that has ended may still be listed until somebody asks for its exit code."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def shell(script: str, **more: Any) -> Json:
    """Return a container that runs a shell script."""
    return {"image": "test/shell:1", "command": ["sh", "-c", script], **more}


def is_ready(pod: Json) -> bool:
    return conditions(pod).get("Ready") == "True"


def conditions(pod: Json) -> dict[str, str]:
    return {entry["type"]: entry["status"] for entry in pod["status"].get("conditions", [])}


def state(pod: Json, container: int = 0, kind: str = "containerStatuses") -> Json:
    statuses = pod["status"].get(kind)
    found: Json = statuses[container]["state"] if statuses else {}
    return found


def terminated(pod: Json, container: int = 0) -> Json:
    found: Json = state(pod, container).get("terminated", {})
    return found


def waiting(pod: Json, container: int = 0) -> Json:
    found: Json = state(pod, container).get("waiting", {})
    return found
