"""The life of an Orchestrator on a real cluster, under the operator's own role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import CONFIG_MAP, DEPLOYMENT, POD, SERVICE
from modelyard.kinds.agent import AGENT
from modelyard.kinds.orchestrator import ORCHESTRATOR
from modelyard.local.raw_client import RawClientError
from tests.conftest import fresh_namespace, recording_all
from tests.support import agents
from tests.support.mcps import condition, expect_writes, says
from tests.support.orchestrators import SEARCH, create, create_token, edit, orchestrator, until_ready

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl
    from tests.support.recorder import Recorder, Witness

pytestmark = pytest.mark.usefixtures("standing_operator")

Json = dict[str, Any]

GARBAGE_SECONDS = 90.0
THREE_WRITES = {"create deployments": 1, "patch orchestrators/status": 2}


@pytest.fixture
async def recorder(cluster: Cluster, installed: Path, witness: Witness, namespace: str) -> AsyncIterator[Recorder]:
    """The history of the namespace. An Orchestrator has two ConfigMaps, for two files."""
    async with recording_all(cluster, namespace, witness) as running:
        yield running
    running.assert_invariants(role=lambda child: child.name if child.kind == CONFIG_MAP.kind else "")


def found(count: int) -> Any:
    """Whether so many agents were found."""
    return lambda item: bool(item) and item.get("status", {}).get("discoveredAgentCount") == count


def templates(recorder: Recorder, namespace: str, name: str = "helper") -> list[Json]:
    """Return the pod templates of a Deployment, one after the other, each once."""
    versions = recorder.history(DEPLOYMENT, namespace, name)
    seen: list[Json] = []
    for template in (version.object["spec"]["template"] for version in versions if version.object):
        if not seen or seen[-1] != template:
            seen.append(template)
    return seen


def most_pods(recorder: Recorder) -> int:
    """Return how many pods there were at most at any time."""
    alive: set[str] = set()
    most = 0
    for version in (version for version in recorder.log if version.kind == POD.kind):
        alive = alive - {version.uid} if version.event == "DELETED" else alive | {version.uid}
        most = max(most, len(alive))
    return most


@pytest.mark.quick
async def test_it_becomes_ready_with_one_child_and_two_status_writes(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)
    await expect_writes(cluster.controlplane.audit_log, namespace, THREE_WRITES)
    assert not [version for version in recorder.log if "canary" in str(version.object)]


async def test_kubectl_shows_it_by_its_short_name(
    cluster: Cluster, namespace: str, recorder: Recorder, kubectl: Kubectl
) -> None:
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)
    head, row = (await kubectl("get", "orch", "-n", namespace)).splitlines()
    assert head.split() == ["NAME", "READY", "REASON", "AGENTS", "MCPS", "AGE"]
    assert row.split()[:5] == ["helper", "true", "Ready", "0", "0"]


async def test_each_change_of_the_set_of_agents_restarts_the_bot_once(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, a2a=SEARCH)
    await until_ready(recorder, namespace)
    for name in ("calendar", "notes"):
        await agents.create(admin, namespace, name, {"team": "office"})
    await agents.create(admin, namespace, "other", {"team": "sales"})
    two = await recorder.wait_for(ORCHESTRATOR.resource, namespace, "helper", found(2))
    assert two
    host = f"{namespace}.svc.cluster.local:8080"
    assert two["status"]["discoveredAgents"] == [f"http://calendar.{host}", f"http://notes.{host}"]
    file = (await admin.get(CONFIG_MAP.path(namespace, "helper-agents")))["data"]["agents.yaml"]
    assert file.count("- name:") == 2
    for name in ("calendar", "notes", "other"):
        await agents.until_ready(recorder, namespace, name)
    assert len(templates(recorder, namespace)) == 2, "two agents that come together are one change"
    await admin.delete(AGENT.resource.path(namespace, "notes"))
    await recorder.wait_for(ORCHESTRATOR.resource, namespace, "helper", found(1))
    await until_ready(recorder, namespace)
    assert len(templates(recorder, namespace)) == 3


async def test_agents_of_another_namespace_are_found(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    async with fresh_namespace(cluster) as elsewhere:
        await agents.create(admin, elsewhere, "calendar", {"team": "office"})
        search = {"enabled": True, "serviceDiscovery": {"enabled": True, "namespace": elsewhere}}
        await create(admin, namespace, a2a=search)
        item = await recorder.wait_for(ORCHESTRATOR.resource, namespace, "helper", found(1))
    assert item
    assert item["status"]["discoveredAgents"] == [f"http://calendar.{elsewhere}.svc.cluster.local:8080"]


async def test_of_two_bots_with_one_token_the_younger_waits_until_the_older_is_gone(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin, path = cluster.controlplane.admin, ORCHESTRATOR.resource.path(namespace)
    await create_token(admin, namespace, "one", "canary-same")
    await create_token(admin, namespace, "two", "canary-same")
    await admin.create(path, orchestrator(namespace, "first", "one"))
    await until_ready(recorder, namespace, "first")
    # Names decide within one second, and this one sorts after the other.
    await admin.create(path, orchestrator(namespace, "second", "two"))
    item = await recorder.wait_for(ORCHESTRATOR.resource, namespace, "second", says("TokenInUse"))
    assert "the Orchestrator first" in condition(item, "Ready")["message"]
    assert not [pod for pod in recorder.created(POD) if pod.startswith("second")]
    await admin.delete(ORCHESTRATOR.resource.path(namespace, "first"))
    await until_ready(recorder, namespace, "second")
    await admin.delete(ORCHESTRATOR.resource.path(namespace, "second"))
    await admin.create(path, orchestrator(namespace, "third", "one"))
    await until_ready(recorder, namespace, "third")
    assert most_pods(recorder) == 1, "a pod starts when that of the bot before has ended"
    assert not [version for version in recorder.log if "canary" in str(version.object)]


async def test_a_bot_of_another_namespace_with_the_same_token_is_a_rival(
    cluster: Cluster, namespace: str, recorder: Recorder, witness: Witness
) -> None:
    admin, stored = cluster.controlplane.admin, []
    async with fresh_namespace(cluster) as elsewhere, recording_all(cluster, elsewhere, witness) as other:
        recorders = {namespace: recorder, elsewhere: other}
        for each in recorders:
            await create_token(admin, each, token="canary-same")
            stored.append(await admin.create(ORCHESTRATOR.resource.path(each), orchestrator(each)))
        # Namespaces decide within one second.
        metas = sorted((one["metadata"]["creationTimestamp"], one["metadata"]["namespace"]) for one in stored)
        elder, younger = (place for _, place in metas)
        item = await recorders[younger].wait_for(ORCHESTRATOR.resource, younger, "helper", says("TokenInUse"))
        assert f"the Orchestrator {elder}/helper" in condition(item, "Ready")["message"]
        await until_ready(recorders[elder], elder)
        await admin.delete(ORCHESTRATOR.resource.path(elder, "helper"))
        await until_ready(recorders[younger], younger)
        assert not [version for each in recorders.values() for version in each.log if "canary" in str(version.object)]


async def test_the_number_of_pods_is_put_back_to_one(
    cluster: Cluster, namespace: str, recorder: Recorder, kubectl: Kubectl
) -> None:
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)
    await kubectl("scale", "deployment", "helper", "-n", namespace, "--replicas=2")

    def numbers() -> list[int]:
        versions = recorder.history(DEPLOYMENT, namespace, "helper")
        return [version.object["spec"]["replicas"] for version in versions if version.object]

    await recorder.until(lambda: 2 in numbers() and numbers()[-1] == 1)
    await until_ready(recorder, namespace)


async def test_what_is_switched_off_is_removed_and_deleting_it_leaves_nothing(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    telemetry = {"enabled": True, "receiver": {"enabled": True}}
    await create(
        admin, namespace, a2a=SEARCH, mcp={"enabled": True, "servers": ["http://tools/mcp"]}, telemetry=telemetry
    )
    await until_ready(recorder, namespace)
    assert set(recorder.created(CONFIG_MAP)) >= {"helper-agents", "helper-mcps"}
    edited = await edit(admin, namespace, a2a={"enabled": False}, telemetry={"enabled": False})
    await recorder.wait_for(CONFIG_MAP, namespace, "helper-agents", lambda item: item is None)
    await recorder.wait_for(SERVICE, namespace, "helper-receiver", lambda item: item is None)
    await until_ready(recorder, namespace, after=edited)
    await admin.delete(ORCHESTRATOR.resource.path(namespace, "helper"))
    for resource, name in ((DEPLOYMENT, "helper"), (CONFIG_MAP, "helper-mcps")):
        await recorder.wait_for(resource, namespace, name, lambda item: item is None, GARBAGE_SECONDS)


async def test_the_manifest_of_the_original_operator_is_taken_as_it_is(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    """Every field that its sample and its example have."""
    admin = cluster.controlplane.admin
    await create_token(admin, namespace)
    telegram = {
        "enabled": True,
        "tokenSecretRef": {"name": "bot", "key": "token"},
        "allowedUsersSecretRef": {"name": "bot", "key": "users"},
        "pollTimeout": "30s",
    }
    search = {"enabled": True, "namespace": namespace, "selector": {"matchLabels": {"group": "one"}}}
    manifest = orchestrator(
        namespace,
        channels={"maxWorkers": 5, "imageRetention": 5, "requireApproval": True, "telegram": telegram},
        gateway={"url": "http://gateway:8080", "apiKeySecretRef": {"name": "bot", "key": "token"}},
        agent={"model": "openai/small", "systemPrompt": "You help."},
        tools={"enabled": True, "schedule": True},
        a2a={"enabled": True, "agents": [], "serviceDiscovery": search},
        mcp={"enabled": True, "servers": [], "serviceDiscovery": search},
        telemetry={
            "enabled": True,
            "traces": {"exporter": {"otlp": {"endpoint": "http://otel:4318", "protocol": "http/protobuf"}}},
            "metrics": {"exporter": {"prometheus": {"host": "0.0.0.0", "port": 9464}}},
        },
        env=[{"name": "TZ", "value": "Europe/Berlin"}],
    )
    await admin.create(f"{ORCHESTRATOR.resource.path(namespace)}?fieldValidation=Strict", manifest)
    item = await until_ready(recorder, namespace)
    assert condition(item, "FieldsIgnored")["reason"] == "FieldIgnored"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"image": ""}, "spec.image"),
        ({"gateway": {"url": "gateway"}}, "spec.gateway.url"),
        ({"gateway": {}}, "spec.gateway needs either url or gatewayRef"),
        ({"agent": {"model": ""}}, "spec.agent.model"),
        (
            {"channels": {"telegram": {"enabled": True, "tokenSecretRef": {"key": "token"}}}},
            "spec.channels.telegram.tokenSecretRef.name must name the Secret",
        ),
        (
            {
                "a2a": {
                    "enabled": True,
                    "serviceDiscovery": {
                        "enabled": True,
                        "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                    },
                }
            },
            "matchExpressions need values",
        ),
    ],
)
async def test_bad_input_is_refused_by_name(cluster: Cluster, namespace: str, spec: Json, words: str) -> None:
    path = f"{ORCHESTRATOR.resource.path(namespace)}?dryRun=All"
    with pytest.raises(RawClientError, match=r"Invalid|must|need") as caught:
        await cluster.controlplane.admin.create(path, orchestrator(namespace, **spec))
    assert words in str(caught.value)
