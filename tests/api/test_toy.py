"""What the contract offers beyond the kinds there are today, shown with the toy kind on the real API server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import CONFIG_MAP
from modelyard.local.raw_client import RawClientError
from tests.api.test_finalizers import BEACONS, operating
from tests.support import beacons
from tests.support.beacons import HOST
from tests.support.mcps import condition
from tests.support.recorder import recording
from tests.toy.api import FLAG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

COMING_SECONDS = 60.0
"""A definition that comes later is noticed within this time."""


@pytest.fixture
def admin(cluster: Cluster) -> RawClient:
    return cluster.controlplane.admin


@pytest.fixture
async def toys(admin: RawClient) -> AsyncIterator[None]:
    await beacons.install(admin)
    async with HOST.serving():
        HOST.status = 200
        HOST.gate.set()
        yield


@pytest.fixture
async def recorder(admin: RawClient, namespace: str, toys: None) -> AsyncIterator[Recorder]:
    async with recording(admin, (BEACONS, CONFIG_MAP), namespace) as running:
        yield running
    running.assert_invariants()


def is_flagged(item: dict[str, Any] | None) -> bool:
    return bool((item or {}).get("status", {}).get("flagged"))


async def test_a_definition_that_the_cluster_lacks_holds_up_nothing_and_is_used_once_it_comes(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    await beacons.remove_flags(admin)
    async with operating(cluster, namespace):
        await beacons.create(admin, namespace)
        ready = await beacons.until_ready(recorder, namespace)
        assert not is_flagged(ready)
        await beacons.install_flags(admin)
        await recorder.wait_for(BEACONS, namespace, "tower", is_flagged, timeout=COMING_SECONDS)
        await beacons.remove_flags(admin)
        left = await recorder.wait_for(
            BEACONS, namespace, "tower", lambda item: not is_flagged(item), timeout=COMING_SECONDS
        )
        assert condition(left, "Ready")["status"] == "True"


async def test_a_group_that_is_refused_does_not_hold_up_the_others_and_is_told(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    foreign = {"apiVersion": FLAG.api_version, "kind": FLAG.kind, "metadata": {"name": "tower"}, "spec": {"mine": True}}
    await admin.create(FLAG.path(namespace), foreign)
    async with operating(cluster, namespace):
        await beacons.create(admin, namespace)
        found = await beacons.until_ready(recorder, namespace)
    assert recorder.created(CONFIG_MAP)["tower"] == 1
    assert (condition(found, "Applied")["status"], condition(found, "Applied")["reason"]) == ("False", "NameConflict")
    assert (await admin.get(FLAG.path(namespace, "tower")))["spec"] == {"mine": True}


async def test_objects_of_one_pool_never_decide_for_the_same_thing(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    towers = [f"tower-{number}" for number in range(20)]
    await asyncio.gather(*(beacons.create(admin, namespace, name) for name in towers))
    async with operating(cluster, namespace):
        found = [await beacons.until_ready(recorder, namespace, name) for name in towers]
    assert sorted(item["status"]["seat"] for item in found) == list(range(1, 21))


async def test_what_is_remembered_outlives_the_operator_and_is_not_acted_on_again(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    async with operating(cluster, namespace):
        uid = (await beacons.create(admin, namespace))["metadata"]["uid"]
        before = await beacons.until_ready(recorder, namespace)
    async with operating(cluster, namespace):
        await beacons.create(admin, namespace, "second")
        second = await beacons.until_ready(recorder, namespace, "second")
    now = recorder.now(BEACONS, namespace, "tower")
    assert now
    assert now["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert HOST.requests["light", uid] == 1
    assert second["status"]["seat"] == 2


async def test_a_memory_that_was_forged_is_taken_for_none(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    await beacons.create(admin, namespace)
    await admin.patch(f"{beacons.CRDS}/{BEACONS.label}", beacons.definition(beacons.ANYTHING))
    async with asyncio.timeout(60):
        while (await _forged(admin, namespace)).get("status", {}).get("seat") != "front":
            await asyncio.sleep(0.05)
    async with operating(cluster, namespace):
        found = await beacons.until_ready(recorder, namespace)
    await beacons.restore(admin)
    assert found["status"]["seat"] == 1


async def _forged(admin: RawClient, namespace: str) -> dict[str, Any]:
    try:
        return await admin.patch(BEACONS.path(namespace, "tower", "status"), {"status": {"seat": "front"}})
    except RawClientError:
        return {}
