"""The guarantees of finalizers, one test for each sentence of docs/design/0007-finalizers.md, with the toy kind."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core import names
from modelyard.core.resources import CONFIG_MAP, EVENT, Key
from modelyard.kube import config
from modelyard.local.raw_client import RawClientError
from modelyard.runtime.manager import Settings
from tests.support import beacons
from tests.support.beacons import HOST
from tests.support.mcps import condition
from tests.support.recorder import recording
from tests.toy import BEACON
from tests.toy.api import FLAG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

BEACONS = BEACON.resource


@pytest.fixture
async def toys(cluster: Cluster) -> AsyncIterator[None]:
    """The toys are installed, and their host serves."""
    await beacons.install(cluster.controlplane.admin)
    async with HOST.serving():
        HOST.status = 200
        HOST.gate.set()
        yield


@pytest.fixture
async def recorder(cluster: Cluster, namespace: str, toys: None) -> AsyncIterator[Recorder]:
    watched = (BEACONS, CONFIG_MAP, FLAG, EVENT)
    async with recording(cluster.controlplane.admin, watched, namespace) as running:
        yield running
    running.assert_invariants()


@pytest.fixture
def admin(cluster: Cluster) -> RawClient:
    return cluster.controlplane.admin


@asynccontextmanager
async def operating(cluster: Cluster, namespace: str) -> AsyncIterator[None]:
    """Run the toys' operator in this process, for one namespace."""
    settings = Settings(lease=Key(namespace, "toys"), identity="toy", namespace=namespace, host="127.0.0.1")
    operator = beacons.beacon_operator(settings, config.from_kubeconfig([cluster.kubeconfig]))
    task = asyncio.create_task(operator.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def delete(admin: RawClient, namespace: str, name: str = "tower") -> None:
    await admin.delete(BEACONS.path(namespace, name))


async def until_gone(recorder: Recorder, namespace: str, name: str = "tower") -> None:
    await recorder.wait_for(BEACONS, namespace, name, lambda item: item is None)


async def until_taken(admin: RawClient, path: str, patch: dict[str, Any]) -> None:
    """Patch again and again, until the API server goes by a definition that allows it."""
    async with asyncio.timeout(60):
        while True:
            try:
                await admin.patch(path, patch)
            except RawClientError:
                await asyncio.sleep(0.05)
            else:
                return


def finalizers(item: dict[str, Any] | None) -> list[str]:
    return list((item or {}).get("metadata", {}).get("finalizers", ()))


async def test_1_the_finalizer_is_stored_before_anything_is_decided_created_or_called(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    HOST.gate.clear()
    async with operating(cluster, namespace):
        made = await beacons.create(admin, namespace)
        await HOST.asked("light", made["metadata"]["uid"])
        await recorder.until(lambda: len(recorder.history(BEACONS, namespace, "tower")) > 1)
        first = recorder.history(BEACONS, namespace, "tower")[1]
        assert finalizers(first.object) == [names.FINALIZER]
        assert "status" not in first.object
        HOST.gate.set()
        await beacons.until_ready(recorder, namespace)


async def test_2_finalize_takes_the_place_of_plan_and_the_object_goes_when_nothing_is_left_of_it(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    async with operating(cluster, namespace):
        uid = (await beacons.create(admin, namespace))["metadata"]["uid"]
        await beacons.until_ready(recorder, namespace)
        assert HOST.lit[uid] == 1
        HOST.gate.clear()
        await delete(admin, namespace)
        await HOST.asked("douse", uid)
        assert names.FINALIZER in finalizers(recorder.now(BEACONS, namespace, "tower"))
        HOST.gate.set()
        await until_gone(recorder, namespace)
        assert uid not in HOST.lit
        assert HOST.requests["light", uid] == 1


async def test_3_a_call_that_fails_is_made_again_and_the_object_waits_for_it(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    async with operating(cluster, namespace):
        uid = (await beacons.create(admin, namespace))["metadata"]["uid"]
        await beacons.until_ready(recorder, namespace)
        HOST.status = 500
        await delete(admin, namespace)
        await HOST.asked("douse", uid)
        HOST.status = 200
        await until_gone(recorder, namespace)
        assert uid not in HOST.lit


async def test_4_finalize_may_run_for_an_object_that_was_never_planned_for(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    made = await beacons.create(admin, namespace)
    await admin.patch(BEACONS.path(namespace, "tower"), {"metadata": {"finalizers": [names.FINALIZER]}})
    await delete(admin, namespace)
    async with operating(cluster, namespace):
        await until_gone(recorder, namespace)
    assert HOST.requests["light", made["metadata"]["uid"]] == 0
    assert recorder.created(CONFIG_MAP)["tower"] == 0


async def test_5_a_host_that_is_gone_holds_an_object_up_for_as_long_as_its_kind_allows_and_no_longer(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    async with operating(cluster, namespace):
        await beacons.create(admin, namespace)
        await beacons.until_ready(recorder, namespace)
        await admin.patch(BEACONS.path(namespace, "tower"), {"spec": {"host": "http://127.0.0.1:1"}})
        await delete(admin, namespace)
        await until_gone(recorder, namespace)


async def test_6_deletion_ends_a_pause(cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder) -> None:
    async with operating(cluster, namespace):
        uid = (await beacons.create(admin, namespace))["metadata"]["uid"]
        await beacons.until_ready(recorder, namespace)
        await admin.patch(BEACONS.path(namespace, "tower"), {"metadata": {"annotations": {names.PAUSED: "true"}}})
        await recorder.wait_for(BEACONS, namespace, "tower", lambda item: bool(condition(item, "Paused")))
        await delete(admin, namespace)
        await until_gone(recorder, namespace)
        assert uid not in HOST.lit


async def test_7_an_object_that_no_longer_decodes_goes_without_finalize_and_an_event_says_so(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    async with operating(cluster, namespace):
        await beacons.create(admin, namespace)
        await beacons.until_ready(recorder, namespace)
        await admin.patch(f"{beacons.CRDS}/{BEACONS.label}", beacons.definition(beacons.ANYTHING))
        await until_taken(admin, BEACONS.path(namespace, "tower"), {"spec": {"host": None}})
        await admin.patch(f"{beacons.CRDS}/{BEACONS.label}", beacons.definition())
        await delete(admin, namespace)
        await until_gone(recorder, namespace)

        def told() -> list[str]:
            events = [version.object for version in recorder.log if version.kind == "Event"]
            return [event["note"] for event in events if event["reason"] == "FinalizerSkipped"]

        await recorder.until(lambda: len(told()) == 1)
        assert "`host`" in told()[0]


async def test_8_a_namespace_that_is_deleted_goes_although_nothing_can_be_created_in_it(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    async with operating(cluster, namespace):
        uid = (await beacons.create(admin, namespace))["metadata"]["uid"]
        await beacons.until_ready(recorder, namespace)
        await admin.delete(f"/api/v1/namespaces/{namespace}")
        await until_gone(recorder, namespace)
        assert uid not in HOST.lit


async def test_9_a_finalizer_that_is_taken_away_by_hand_lets_the_object_go_at_once(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    HOST.gate.clear()
    async with operating(cluster, namespace):
        uid = (await beacons.create(admin, namespace))["metadata"]["uid"]
        await HOST.asked("light", uid)
        await delete(admin, namespace)
        await HOST.asked("douse", uid)
        await admin.patch(BEACONS.path(namespace, "tower"), {"metadata": {"finalizers": None}})
        await until_gone(recorder, namespace)
        HOST.gate.set()
        await beacons.create(admin, namespace, "next")
        await beacons.until_ready(recorder, namespace, "next")


async def test_10_finalizers_of_others_are_left_alone(
    cluster: Cluster, admin: RawClient, namespace: str, recorder: Recorder
) -> None:
    others = {"metadata": {"finalizers": ["example.com/other"]}}
    async with operating(cluster, namespace):
        await beacons.create(admin, namespace)
        await beacons.until_ready(recorder, namespace)
        both = {"metadata": {"finalizers": [names.FINALIZER, "example.com/other"]}}
        await admin.patch(BEACONS.path(namespace, "tower"), both)
        await delete(admin, namespace)
        left = await recorder.wait_for(
            BEACONS, namespace, "tower", lambda item: finalizers(item) == others["metadata"]["finalizers"]
        )
        assert left
        await admin.patch(BEACONS.path(namespace, "tower"), {"metadata": {"finalizers": None}})
        await until_gone(recorder, namespace)
