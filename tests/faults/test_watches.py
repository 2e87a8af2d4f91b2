"""Dropped, late and broken watches, an API server that goes away, and rights that are taken away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from modelyard.core.resources import DEPLOYMENT
from modelyard.kinds.mcp import MCP
from tests.support.accounts import until_children_are_taken
from tests.support.calls import Match
from tests.support.faults import FOREVER, Answer, CloseWatch, HoldEvents, Rule
from tests.support.mcps import create, edit, expect_writes, ready, until_ready, writes

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.faultproxy import FaultProxy
    from tests.support.operators import OperatorProcess
    from tests.support.recorder import Recorder

WATCH = frozenset({"watch"})
FIVE_WRITES = {"create deployments": 1, "create services": 1, "patch mcps/status": 3}


async def test_watches_that_keep_closing_lose_nothing(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess
) -> None:
    proxy.arm(Rule(Match(verbs=WATCH, resource="deployments.apps"), CloseWatch(), after=1, times=8))
    await proxied.start()
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)
    await expect_writes(cluster.controlplane.audit_log, namespace, FIVE_WRITES)


async def test_after_410_everything_is_listed_anew_and_nothing_is_written_twice(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess
) -> None:
    await proxied.start()
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)
    gone = proxy.arm(Rule(Match(verbs=WATCH, resource="deployments.apps"), CloseWatch(410, "Expired")))
    proxy.arm(Rule(Match(verbs=WATCH, resource="mcps.core.inference-gateway.com"), CloseWatch(410, "Expired")))
    edited = await edit(cluster.controlplane.admin, namespace, server={"args": ["--more"]})
    await gone.struck()
    await until_ready(recorder, namespace, after=edited)
    counted = writes(cluster.controlplane.audit_log, namespace)
    assert counted["create deployments"] == counted["create services"] == 1


async def test_two_edits_during_a_held_watch_end_in_the_last_one_only(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess
) -> None:
    admin = cluster.controlplane.admin
    await proxied.start()
    await create(admin, namespace)
    await until_ready(recorder, namespace)
    gate = asyncio.Event()
    held = proxy.arm(Rule(Match(verbs=WATCH, resource="mcps.core.inference-gateway.com"), HoldEvents(gate)))
    await edit(admin, namespace, server={"args": ["--second"]})
    await edit(admin, namespace, server={"args": ["--first"]})
    last = await edit(admin, namespace, server={"args": []})
    await held.struck()
    gate.set()
    await until_ready(recorder, namespace, after=last)
    generations = {version.generation for version in recorder.history(DEPLOYMENT, namespace, "tools")}
    assert generations <= {1, 2, 3}  # passing through a state is allowed, going back to one that was left is not
    args = [_args(version.object) for version in recorder.history(DEPLOYMENT, namespace, "tools")]
    assert args[-1] is None


async def test_a_missing_child_is_noticed_after_the_watch_was_cut(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess
) -> None:
    admin = cluster.controlplane.admin
    await proxied.start()
    await create(admin, namespace)
    await until_ready(recorder, namespace)
    proxy.arm(Rule(Match(verbs=WATCH, resource="deployments.apps"), CloseWatch(410, "Expired")))
    first = (await admin.get(DEPLOYMENT.path(namespace, "tools")))["metadata"]["uid"]
    await admin.delete(DEPLOYMENT.path(namespace, "tools"))
    await recorder.wait_for(
        DEPLOYMENT, namespace, "tools", lambda item: item is not None and item["metadata"]["uid"] != first
    )
    await until_ready(recorder, namespace)


async def test_an_api_server_that_restarts_changes_nothing(
    cluster: Cluster, namespace: str, installed: Path, operator: OperatorProcess
) -> None:
    """Without the recorder: a new API server does not remember the history that its watch would go on from."""
    admin = cluster.controlplane.admin
    await create(admin, namespace, "before")
    await _until_stored_ready(admin, namespace, "before")
    await cluster.controlplane.restart_apiserver()
    await until_children_are_taken(installed)
    await create(admin, namespace, "after")
    await _until_stored_ready(admin, namespace, "after")
    await operator.until_ready("leader")
    both = {"create deployments": 2, "create services": 2, "patch mcps/status": 6}
    await expect_writes(cluster.controlplane.audit_log, namespace, both)


async def test_a_rule_that_is_taken_away_is_named_and_others_go_on(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess
) -> None:
    """The authorizer's own answer is injected: taking a rule from the shared role would hit every other test."""
    words = 'services is forbidden: User "modelyard" cannot create resource "services" in API group ""'
    denied = Answer(403, "Forbidden", message=words)
    proxy.arm(Rule(Match(verbs=frozenset({"create"}), resource="services", namespace=namespace), denied, times=4))
    await proxied.start()
    await create(cluster.controlplane.admin, namespace)
    found = await recorder.wait_for(
        MCP.resource, namespace, "tools", lambda item: "Forbidden" in str((item or {}).get("status"))
    )
    assert "create services" in str(found)
    await create(cluster.controlplane.admin, namespace, "other")
    await until_ready(recorder, namespace, "other")
    edited = await edit(cluster.controlplane.admin, namespace, replicas=2)
    await until_ready(recorder, namespace, after=edited)


async def test_a_watch_that_is_forbidden_shows_in_readiness_and_recovers(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess
) -> None:
    words = 'pods is forbidden: User "modelyard" cannot watch resource "pods" in API group ""'
    forbidden = Answer(403, "Forbidden", message=words)
    rule = proxy.arm(Rule(Match(verbs=frozenset({"watch", "list"}), resource="pods"), forbidden, times=FOREVER))
    await proxied.start()
    await rule.struck()
    await proxied.until_it_says("pods", "watch pods")
    proxy.disarm()
    await proxied.until_ready("leader")
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)


async def _until_stored_ready(admin: RawClient, namespace: str, name: str) -> None:
    # After a restart of the API server, controllers wait for up to a minute before they try again to follow it.
    async with asyncio.timeout(120):
        while not ready(await admin.get(MCP.resource.path(namespace, name))):
            await asyncio.sleep(0.1)


def _args(item: dict[str, object] | None) -> object:
    return item["spec"]["template"]["spec"]["containers"][0].get("args") if item else None  # type: ignore[index]
