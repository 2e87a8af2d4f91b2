"""InferenceServices of Models for Macs on a real cluster, with hosts whose daemons answer over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import DEPLOYMENT, ENDPOINT_SLICE, SERVICE
from tests.support.fleets import ADDRESS, MODELS, create_host, slice_name
from tests.support.fleets import create_model as create_inferencemodel
from tests.support.hostdaemon import GIB, HostDaemon
from tests.support.mcps import condition
from tests.support.services import (
    SERVICES,
    SOURCE,
    create_model,
    create_service,
    edit_model,
    edit_service,
    until_service,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.usefixtures("standing_operator")

Json = dict[str, Any]

METAL = {"accelerator": "metal"}
PATIENCE = 60.0


@pytest.fixture
def admin(cluster: Cluster) -> RawClient:
    return cluster.controlplane.admin


@pytest.fixture
async def daemon() -> AsyncIterator[HostDaemon]:
    async with HostDaemon(total=4 * GIB).serving() as daemon:
        yield daemon


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds of a daemon, which no watch tells of."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.05)


def is_ready_with_pods(item: Json | None) -> bool:
    status = (item or {}).get("status", {})
    return bool(status.get("selector")) and status.get("phase") == "Ready"


def published(recorder: Recorder, namespace: str) -> list[set[str]]:
    """Return which addresses got requests of the Service, from one change to the next, whatever made the slices."""
    slices: dict[str, set[str]] = {}
    seen: list[set[str]] = [set()]
    for version in recorder.log:
        if (version.kind, version.namespace) == (ENDPOINT_SLICE.kind, namespace):
            entries = (version.object.get("endpoints") or ()) if version.event != "DELETED" else ()
            slices[version.name] = {one["addresses"][0] for one in entries if one["conditions"]["ready"]}
            now = set[str]().union(*slices.values())
            seen += [now] if now != seen[-1] else []
    return seen


async def test_a_service_for_a_mac_waits_is_served_scaled_and_unloaded(
    admin: RawClient, namespace: str, recorder: Recorder, daemon: HostDaemon
) -> None:
    await create_model(admin, namespace, hardware={**METAL, "memoryBudget": "1Gi"})
    await create_service(admin, namespace, priority="high", evictionProtection=True, contextSize=4096)
    await until_service(recorder, namespace, phase="Creating", schedulingStatus="WaitingForMetalAgent")
    await create_host(admin, namespace, "studio", daemon.port)
    ready = await until_service(recorder, namespace, phase="Ready", readyReplicas=1, schedulingStatus="")
    assert ready["status"]["endpoint"] == f"http://chat.{namespace}.svc.cluster.local:8080/v1/chat/completions"
    assert daemon.asked == [f"load {SOURCE}"]
    assert daemon.bodies[SOURCE] == {
        "model": SOURCE,
        "owner": f"{namespace}/chat",
        "memory": GIB,
        "options": {"contextSize": 4096},
        "priority": "high",
        "evictionProtection": True,
        "aliases": ["chat", f"{namespace}/chat", "tiny"],
    }
    service, part = (
        recorder.now(SERVICE, namespace, "chat"),
        recorder.now(ENDPOINT_SLICE, namespace, slice_name("chat", daemon.port)),
    )
    assert service
    assert part
    assert (service["spec"]["ports"][0]["port"], service["spec"]["ipFamilyPolicy"]) == (8080, "PreferDualStack")
    assert service["metadata"]["labels"]["inference.llmkube.dev/service"] == "chat"
    assert [entry["addresses"] for entry in part["endpoints"]] == [[ADDRESS]]
    await edit_service(admin, namespace, replicas=0)
    await until_service(recorder, namespace, phase="Stopped", readyReplicas=0)
    assert daemon.asked == [f"load {SOURCE}", f"unload {SOURCE}"]
    await edit_service(admin, namespace, replicas=1)
    await until_service(recorder, namespace, phase="Ready")
    await admin.delete(SERVICES.path(namespace, "chat"))
    await recorder.wait_for(MODELS, namespace, "chat", lambda item: item is None, PATIENCE)
    assert daemon.models == {}


async def test_a_model_moves_from_pods_to_a_mac_and_back_and_its_service_always_leads_to_one_of_them(
    admin: RawClient, namespace: str, recorder: Recorder, daemon: HostDaemon
) -> None:
    await create_host(admin, namespace, "studio", daemon.port)
    await create_model(admin, namespace)
    await create_service(admin, namespace)
    await until_service(recorder, namespace, phase="Ready")
    await recorder.until(lambda: bool(published(recorder, namespace)[-1]))
    daemon.lands = "loading"
    await edit_model(admin, namespace, hardware=METAL)
    await until(lambda: SOURCE in daemon.models)
    moving = await until_service(recorder, namespace, phase="Progressing", readyReplicas=1)
    assert "the pods of before serve: 1" in condition(moving, "Ready")["message"]
    daemon.shows(SOURCE, "ready")
    await recorder.wait_for(DEPLOYMENT, namespace, "chat", lambda item: item is None, PATIENCE)
    await recorder.until(lambda: published(recorder, namespace)[-1] == {ADDRESS}, PATIENCE)
    await until_service(recorder, namespace, phase="Ready")
    await edit_model(admin, namespace, hardware={"accelerator": "cpu"})
    await recorder.wait_for(MODELS, namespace, "chat", lambda item: item is None, 2 * PATIENCE)
    await recorder.wait_for(SERVICES, namespace, "chat", is_ready_with_pods, PATIENCE)
    assert daemon.models == {}
    seen = published(recorder, namespace)
    assert ADDRESS not in seen[-1]
    # Empty only before the first pod was ready: no moment without an endpoint, and no other Service.
    assert all(seen[1:]), seen
    assert [version.event for version in recorder.history(SERVICE, namespace, "chat")].count("ADDED") == 1


async def test_a_service_and_an_inferencemodel_never_take_the_same_memory(
    admin: RawClient, namespace: str, recorder: Recorder, daemon: HostDaemon
) -> None:
    await create_host(admin, namespace, "studio", daemon.port)
    await create_model(admin, namespace, hardware={**METAL, "memoryBudget": "3Gi"})
    created = await asyncio.gather(
        create_service(admin, namespace), create_inferencemodel(admin, namespace, memory="3Gi"), return_exceptions=True
    )
    assert not [one for one in created if isinstance(one, BaseException)]

    def placed(name: str) -> bool:
        return bool((recorder.now(MODELS, namespace, name) or {}).get("status", {}).get("assignments"))

    await recorder.until(lambda: placed("chat") or placed("qwen"), PATIENCE)
    loser = "qwen" if placed("chat") else "chat"
    await recorder.wait_for(
        MODELS, namespace, loser, lambda item: condition(item, "Placed").get("reason") == "InsufficientMemory", PATIENCE
    )
    await until(lambda: len(daemon.models) == 1)


async def test_a_host_that_is_short_of_memory_is_a_condition_until_that_is_over(
    admin: RawClient, namespace: str, recorder: Recorder, daemon: HostDaemon
) -> None:
    await create_host(admin, namespace, "studio", daemon.port)
    await create_model(admin, namespace, hardware=METAL)
    await create_service(admin, namespace)
    await until_service(recorder, namespace, phase="Ready")
    for level, told in (("critical", ("True", "Critical")), ("normal", ("False", "Normal"))):
        daemon.pressure = level

        def is_told(item: Json | None, told: tuple[str, str] = told) -> bool:
            found = condition(item, "MemoryPressure")
            return (found.get("status"), found.get("reason")) == told

        await recorder.wait_for(SERVICES, namespace, "chat", is_told, PATIENCE)
