"""GPUs that do not suffice for all: who waits, who is next, who has to make room, and which nodes will do.

The scheduler is real. Each test has a GPU resource of its own, that only its nodes offer.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import POD
from modelyard.kinds.shared.gpu import MEMORY_LABEL
from tests.support.mcps import condition
from tests.support.services import SERVICES, create_model, create_service, shows, status_writes, until_service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.usefixtures("standing_operator")

Json = dict[str, Any]


class Gpus:
    """The GPUs of one test."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self.resource = f"test.example.com/{namespace}"
        self.nodes: list[str] = []

    async def add(self, gpus: int = 1, memory: str = "") -> str:
        """Add a node with so many, which may tell their memory in MiB, and return its name."""
        name = f"{self._namespace}-{len(self.nodes)}"
        self.nodes.append(name)
        labels = {MEMORY_LABEL: memory} if memory else {}
        # Nobody else's pods: those of the next test would be lost with the node.
        taint = {"key": self.resource, "value": "present", "effect": "NoSchedule"}
        await self._cluster.simulation.add_node(
            name, gpus=gpus, gpu_resource=self.resource, labels=labels, taints=[taint]
        )
        return name

    async def remove_all(self) -> None:
        """Take all nodes away."""
        for name in self.nodes:
            await self._cluster.simulation.remove_node(name)


@pytest.fixture
async def gpus(cluster: Cluster, namespace: str) -> AsyncIterator[Gpus]:
    """GPUs that a Model named tiny asks for, one for each pod. Nobody else waits for any."""
    admin = cluster.controlplane.admin
    await _until_nobody_waits(admin)
    found = Gpus(cluster, namespace)
    hardware = {"accelerator": "cuda", "gpu": {"count": 1, "resourceName": found.resource}}
    await create_model(admin, namespace, hardware=hardware)
    yield found
    await found.remove_all()


async def test_who_waits_is_served_by_priority_then_age_as_soon_as_there_is_room(
    cluster: Cluster, namespace: str, recorder: Recorder, gpus: Gpus
) -> None:
    admin = cluster.controlplane.admin
    await gpus.add()
    await _serve_one(admin, recorder, namespace)
    await create_service(admin, namespace, "young", priority="normal")
    found = await _until_position(recorder, namespace, "young", 1)
    assert found["status"]["waitingFor"] == f"{gpus.resource}: 1"
    assert found["status"]["schedulingStatus"] == "InsufficientGPU"
    assert condition(found, "GPUAvailable")["status"] == condition(found, "Available")["status"] == "False"
    assert condition(found, "Degraded")["status"] == "False"
    await create_service(admin, namespace, "humble", priority="low")
    await create_service(admin, namespace, "urgent", priority="high")
    await _until_places(recorder, namespace, urgent=1, young=2, humble=3)
    for served, *rest in (("urgent", "young", "humble"), ("young", "humble"), ("humble",)):
        await gpus.add()
        found = await until_service(recorder, namespace, served, queuePosition=0, waitingFor="", schedulingStatus="")
        assert condition(found, "GPUAvailable")["status"] == "True"
        await _until_places(recorder, namespace, **{name: place for place, name in enumerate(rest, 1)})


async def test_of_equal_priority_the_older_service_comes_first_whatever_the_age_of_its_pods(
    cluster: Cluster, namespace: str, recorder: Recorder, gpus: Gpus
) -> None:
    admin = cluster.controlplane.admin
    await gpus.add()
    await _serve_one(admin, recorder, namespace)
    await create_service(admin, namespace, "second")
    await _until_position(recorder, namespace, "second", 1)
    await _until_the_next_second()
    await create_service(admin, namespace, "first")
    await _until_places(recorder, namespace, second=1, first=2)
    for pod in _pods_of(recorder, "second"):
        await admin.delete(POD.path(namespace, pod))
        await recorder.wait_for(POD, namespace, pod, lambda item: item is None)
    await _until_places(recorder, namespace, second=1, first=2)


async def test_a_change_of_the_queue_rewrites_each_service_at_most_once(
    cluster: Cluster, namespace: str, recorder: Recorder, gpus: Gpus
) -> None:
    admin = cluster.controlplane.admin
    names = [f"waits-{number}" for number in range(6)]
    await gpus.add()
    await _serve_one(admin, recorder, namespace)
    for name in names:
        await create_service(admin, namespace, name)
    await _until_places(recorder, namespace, **{name: place for place, name in enumerate(names, 1)})
    before = _told(recorder)
    await gpus.add()
    left = await _the_only_ready_one(recorder, namespace, names)
    names.remove(left)
    await _until_places(recorder, namespace, **{name: place for place, name in enumerate(names, 1)})
    assert {(_told(recorder) - before)[name] for name in names} <= {0, 1}
    await _until_logged(cluster.controlplane.audit_log, namespace, recorder)


async def test_a_high_priority_takes_the_place_of_a_low_one_which_says_so_until_it_serves_again(
    cluster: Cluster, namespace: str, recorder: Recorder, gpus: Gpus
) -> None:
    admin = cluster.controlplane.admin
    await gpus.add()
    await create_service(admin, namespace, "humble", priority="low")
    await until_service(recorder, namespace, "humble")
    await create_service(admin, namespace, "urgent", priority="high")
    await until_service(recorder, namespace, "urgent")
    victim = await _until_position(recorder, namespace, "humble", 1)
    assert (condition(victim, "Degraded")["status"], condition(victim, "Degraded")["reason"]) == ("True", "Preempted")
    assert "higher priority" in condition(victim, "Ready")["message"]
    assert condition(victim, "Available")["status"] == "False"
    await gpus.add()
    victim = await until_service(recorder, namespace, "humble")
    assert condition(victim, "Degraded")["status"] == "False"


@pytest.mark.parametrize("label", ["49152", ""], ids=["a label that is large enough", "no label"])
async def test_a_node_whose_gpus_have_too_little_memory_is_not_used(
    cluster: Cluster, namespace: str, recorder: Recorder, gpus: Gpus, label: str
) -> None:
    admin = cluster.controlplane.admin
    await gpus.add(memory="16384")
    await create_service(admin, namespace, resources={"gpuMemory": "40Gi"})
    await until_service(recorder, namespace, phase="WaitingForGPU")
    enough = await gpus.add(memory=label)
    await until_service(recorder, namespace)
    (pod,) = (await admin.get(POD.path(namespace)))["items"]
    assert pod["spec"]["nodeName"] == enough


async def _serve_one(admin: RawClient, recorder: Recorder, namespace: str) -> None:
    """Give the only GPU to a service that nobody can take it from."""
    await create_service(admin, namespace, "occupant", priority="critical")
    await until_service(recorder, namespace, "occupant")


async def _until_position(recorder: Recorder, namespace: str, name: str, place: int) -> Json:
    return await until_service(recorder, namespace, name, phase="WaitingForGPU", queuePosition=place)


async def _until_places(recorder: Recorder, namespace: str, **places: int) -> None:
    """Wait until each of these is at its place, all at the same time."""
    settled = {name: shows(phase="WaitingForGPU", queuePosition=place) for name, place in places.items()}
    await recorder.until(lambda: all(check(recorder.now(SERVICES, namespace, name)) for name, check in settled.items()))


async def _the_only_ready_one(recorder: Recorder, namespace: str, names: list[str]) -> str:
    """Wait until one of them serves. Among equals, the scheduler does not always take the oldest first."""

    def ready() -> list[str]:
        return [name for name in names if shows(phase="Ready")(recorder.now(SERVICES, namespace, name))]

    await recorder.until(lambda: bool(ready()))
    (one,) = ready()
    return one


def _told(recorder: Recorder) -> Counter[str]:
    """Count by service how often its status was changed."""
    return Counter(version.name for version in recorder.log if version.kind == SERVICES.kind and version.status)


async def _until_logged(audit_log: Path, namespace: str, recorder: Recorder) -> None:
    """Wait for the audit log, which is a moment behind, to hold as many writes as there were changes, and no more."""
    async with asyncio.timeout(60):
        while status_writes(audit_log, namespace) != _told(recorder):
            await asyncio.sleep(0.1)


async def _until_nobody_waits(admin: RawClient) -> None:
    """Wait for the pods of earlier tests to go: the queue is one for the whole cluster."""
    async with asyncio.timeout(60):
        while (await admin.get(f"{POD.path()}?fieldSelector=status.phase=Pending"))["items"]:
            await asyncio.sleep(0.1)


async def _until_the_next_second() -> None:
    """The age of objects is stored in whole seconds."""
    now = int(time.time())
    while int(time.time()) == now:
        await asyncio.sleep(0.02)


def _pods_of(recorder: Recorder, service: str) -> list[str]:
    return [name for name in recorder.created(POD) if name.startswith(f"{service}-")]
