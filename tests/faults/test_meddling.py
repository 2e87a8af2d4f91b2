"""Others who write what is ours: by mistake, on purpose, or again and again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from modelyard.core import names
from modelyard.core.resources import DEPLOYMENT, SERVICE
from modelyard.kinds.mcp import MCP
from modelyard.local.raw_client import RawClientError
from modelyard.runtime.drift import MAX_REPAIRS
from tests.support.calls import Match
from tests.support.faults import HoldEvents, Rule
from tests.support.mcps import condition, create, says, until_ready, writes

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.faultproxy import FaultProxy
    from tests.support.operators import OperatorProcess
    from tests.support.recorder import Recorder


@pytest.mark.usefixtures("operator")
async def test_a_forged_status_is_put_right(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, image="simulate.modelyard.dev/crash:1")
    await recorder.wait_for(MCP.resource, namespace, "tools", says("CrashLoop"))
    forged = {"ready": True, "url": "http://evil.example", "conditions": []}
    patched = await admin.patch(MCP.resource.path(namespace, "tools", "status"), {"status": forged})
    found = await recorder.wait_for_later(
        patched, MCP.resource, lambda item: says("CrashLoop")(item) and not item["status"]["ready"]
    )
    assert found["status"]["url"].endswith(".svc.cluster.local:8080/mcp")


@pytest.mark.usefixtures("operator")
async def test_conditions_of_others_are_left_alone(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    ready = await until_ready(recorder, namespace)
    theirs = {
        "type": "example.com/Approved",
        "status": "True",
        "reason": "ByHand",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    both = [*ready["status"]["conditions"], theirs]
    await admin.patch(MCP.resource.path(namespace, "tools", "status"), {"status": {"conditions": both}})
    await admin.patch(MCP.resource.path(namespace, "tools"), {"spec": {"replicas": 0}})
    found = await recorder.wait_for(MCP.resource, namespace, "tools", says("ScaledToZero"))
    assert condition(found, "example.com/Approved") == theirs


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("label", [names.MANAGED_BY, names.KIND_LABEL, "app"])
async def test_a_label_taken_from_a_child_comes_back(
    cluster: Cluster, namespace: str, recorder: Recorder, label: str
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_ready(recorder, namespace)
    patched = await admin.patch(DEPLOYMENT.path(namespace, "tools"), {"metadata": {"labels": {label: None}}})
    assert label not in patched["metadata"]["labels"]
    await recorder.wait_for_later(patched, DEPLOYMENT, lambda item: label in item["metadata"]["labels"])
    assert recorder.created(DEPLOYMENT) == {"tools": 1}


@pytest.mark.usefixtures("operator")
async def test_a_child_that_somebody_deletes_is_made_again(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_ready(recorder, namespace)
    first = (await admin.get(SERVICE.path(namespace, "tools-service")))["metadata"]["uid"]
    await admin.delete(SERVICE.path(namespace, "tools-service"))
    await recorder.wait_for(
        SERVICE, namespace, "tools-service", lambda item: item is not None and item["metadata"]["uid"] != first
    )
    assert recorder.created(SERVICE) == {"tools-service": 2}


@pytest.mark.usefixtures("operator")
async def test_a_fight_over_a_field_ends_and_is_shown(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_ready(recorder, namespace)
    fight = asyncio.create_task(_keep_changing(admin, namespace))
    try:
        found = await recorder.wait_for(
            MCP.resource, namespace, "tools", lambda item: condition(item, "Applied").get("reason") == "FieldContested"
        )
    finally:
        fight.cancel()
        await asyncio.gather(fight, return_exceptions=True)
    assert "spec.strategy.type" in condition(found, "Applied")["message"]
    assert writes(cluster.controlplane.audit_log, namespace)["patch deployments"] <= MAX_REPAIRS + 1


async def test_while_its_own_writes_are_not_seen_it_does_not_write_again(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess
) -> None:
    admin = cluster.controlplane.admin
    await proxied.start()
    await proxied.until_ready("leader")
    gate = asyncio.Event()
    for resource in ("deployments.apps", "services"):
        proxy.arm(Rule(Match(verbs=frozenset({"watch"}), resource=resource), HoldEvents(gate)))
    await create(admin, namespace)
    await recorder.wait_for(MCP.resource, namespace, "tools", says("Starting"))
    for number in range(20):
        await admin.patch(MCP.resource.path(namespace, "tools"), {"metadata": {"annotations": {"wake": str(number)}}})
    gate.set()
    await until_ready(recorder, namespace)
    counted = writes(cluster.controlplane.audit_log, namespace)
    assert counted["create deployments"] == counted["create services"] == 1
    assert counted["patch deployments"] == 0


async def _keep_changing(admin: RawClient, namespace: str) -> None:
    strategy = {"type": "Recreate", "rollingUpdate": None}
    while True:
        with suppress(RawClientError):  # the other side was faster, several times in a row
            await admin.patch(DEPLOYMENT.path(namespace, "tools"), {"spec": {"strategy": strategy}})
        await asyncio.sleep(0.05)
