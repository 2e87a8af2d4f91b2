"""Whatever happens to a write, and wherever the operator dies, the end and the journey are the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import DEPLOYMENT, SERVICE
from modelyard.kinds.mcp import MCP
from tests.support.calls import WRITES, Match
from tests.support.faults import Answer, Cut, Delay, Hold, Kill, Rule
from tests.support.mcps import create, edit, until_ready

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from tests.support.faultproxy import FaultProxy
    from tests.support.operators import OperatorProcess
    from tests.support.recorder import Recorder

POINTS = range(5)
"""A new MCP object costs five writes: two children and three statuses."""


def _own_writes(namespace: str) -> Match:
    return Match(verbs=WRITES, namespace=namespace)


async def _journey_is_clean(cluster: Cluster, recorder: Recorder, namespace: str) -> None:
    """The end is as without faults: each child once, of ours, and nothing was deleted on the way."""
    assert recorder.created(DEPLOYMENT) == {"tools": 1}
    assert recorder.created(SERVICE) == {"tools-service": 1}
    assert not recorder.deleted(DEPLOYMENT) + recorder.deleted(SERVICE)
    deployment = await cluster.controlplane.admin.get(DEPLOYMENT.path(namespace, "tools"))
    assert deployment["metadata"]["ownerReferences"][0]["kind"] == "MCP"


@pytest.mark.parametrize("after_commit", [True, False], ids=["after commit", "before commit"])
@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_any_write_it_ends_the_same(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess,
    point: int, after_commit: bool,
) -> None:  # fmt: skip
    rule = proxy.arm(Rule(_own_writes(namespace), Kill(proxied.kill, after_commit=after_commit), after=point))
    await proxied.start()
    await create(cluster.controlplane.admin, namespace)
    await rule.struck()
    await proxied.died()
    await proxied.start()
    await until_ready(recorder, namespace)
    await _journey_is_clean(cluster, recorder, namespace)


@pytest.mark.parametrize("point", POINTS)
async def test_a_lost_answer_causes_no_second_creation(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess, point: int
) -> None:
    rule = proxy.arm(Rule(_own_writes(namespace), Cut(after_commit=True), after=point))
    await proxied.start()
    await create(cluster.controlplane.admin, namespace)
    await rule.struck()
    await until_ready(recorder, namespace)
    await _journey_is_clean(cluster, recorder, namespace)
    created = proxy.calls(Match(verbs=frozenset({"create"}), namespace=namespace, resource="deployments.apps"))
    assert len(created) == 1


@pytest.mark.parametrize(
    "fault",
    [
        Answer(409, "Conflict"),
        Answer(429, retry_after=1),
        Answer(500),
        Answer(503),
        Delay(0.5),
        Cut(),
    ],
    ids=["409", "429", "500", "503", "late", "cut"],
)
async def test_trouble_at_every_first_write_does_not_show(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess, fault: Any
) -> None:
    for resource in ("deployments.apps", "services", "mcps.core.inference-gateway.com"):
        proxy.arm(Rule(Match(verbs=WRITES, namespace=namespace, resource=resource), fault))
    await proxied.start()
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)
    await _journey_is_clean(cluster, recorder, namespace)
    reasons = {
        version.conditions["Ready"]["reason"]
        for version in recorder.history(MCP.resource, namespace, "tools")
        if version.conditions
    }
    assert reasons <= {"Starting", "WaitingForAnswer", "Ready"}
    assert not [version for version in recorder.log if version.kind == "Event" and version.object["type"] == "Warning"
                and version.object["regarding"]["kind"] == "MCP"]  # fmt: skip


@pytest.mark.parametrize("point", range(4))
async def test_killed_while_an_edit_is_carried_out_it_ends_the_same(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess, point: int
) -> None:
    admin = cluster.controlplane.admin
    await proxied.start()
    await create(admin, namespace, replicas=1, env=[{"name": "A", "value": "1"}])
    await until_ready(recorder, namespace)
    rule = proxy.arm(Rule(_own_writes(namespace), Kill(proxied.kill, after_commit=True), after=point))
    edited = await edit(admin, namespace, replicas=2, env=[{"name": "B", "value": "2"}])
    await rule.struck()
    await proxied.died()
    await proxied.start()
    found = await until_ready(recorder, namespace, after=edited)
    assert found["status"]["readyReplicas"] == 2
    await _journey_is_clean(cluster, recorder, namespace)
    spec = (await admin.get(DEPLOYMENT.path(namespace, "tools")))["spec"]
    assert {"name": "B", "value": "2"} in spec["template"]["spec"]["containers"][0]["env"]
    assert "A" not in {entry["name"] for entry in spec["template"]["spec"]["containers"][0]["env"]}
    assert spec["replicas"] == 2


async def test_a_request_that_hangs_holds_up_nobody_else(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess
) -> None:
    gate = asyncio.Event()
    rule = proxy.arm(Rule(Match(verbs=WRITES, namespace=namespace, name="", resource="deployments.apps"), Hold(gate)))
    await proxied.start()
    await create(cluster.controlplane.admin, namespace, "stuck")
    await rule.struck()
    await create(cluster.controlplane.admin, namespace, "other")
    await until_ready(recorder, namespace, "other")
    gate.set()
    await until_ready(recorder, namespace, "stuck")
