"""The life of an Agent on a real cluster, under the operator's own role."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelyard.core.resources import DEPLOYMENT, POD, SERVICE
from modelyard.kinds.agent import AGENT
from modelyard.local.raw_client import RawClientError
from tests.support import gateways
from tests.support.agents import agent, create, edit, until_ready
from tests.support.mcps import condition, expect_writes, says
from tests.support.mcpserver import Behaviour, Mood

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl
    from tests.support.mcpserver import McpServers
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.usefixtures("standing_operator")

GARBAGE_SECONDS = 90.0
FIVE_WRITES = {"create deployments": 1, "create services": 1, "patch agents/status": 3}


@pytest.mark.quick
async def test_it_becomes_ready_with_two_children_and_three_status_writes(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    await create(cluster.controlplane.admin, namespace)
    found = await until_ready(recorder, namespace)
    await expect_writes(cluster.controlplane.audit_log, namespace, FIVE_WRITES)
    steps = [
        version.conditions for version in recorder.history(AGENT.resource, namespace, "calendar") if version.conditions
    ]
    assert [tuple(step[kind]["status"] for kind in AGENT.conditions) for step in steps] == [
        ("False", "Unknown", "False"),
        ("True", "Unknown", "False"),
        ("True", "True", "True"),
    ]
    card = found["status"]["card"]
    assert (card["name"], card["version"], card["skillsNames"]) == ("tiny", "1.0", "add, echo")
    assert card["url"] == f"http://calendar.{namespace}.svc.cluster.local:8080/a2a"
    assert card["capabilities"] == {"streaming": True, "pushNotifications": False, "stateTransitionHistory": False}


async def test_kubectl_shows_it(cluster: Cluster, namespace: str, recorder: Recorder, kubectl: Kubectl) -> None:
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)
    head, row = (await kubectl("get", "agent", "-n", namespace)).splitlines()
    assert head.split() == ["NAME", "READY", "REASON", "VERSION", "URL", "STREAMING", "AGE"]
    url = f"http://calendar.{namespace}.svc.cluster.local:8080/a2a"
    assert row.split()[:6] == ["calendar", "true", "Ready", "1.0", url, "true"]


async def test_its_service_follows_the_port(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_ready(recorder, namespace)
    edited = await edit(admin, namespace, port=9000)
    found = await until_ready(recorder, namespace, after=edited)
    service = await admin.get(SERVICE.path(namespace, "calendar"))
    assert [port["port"] for port in service["spec"]["ports"]] == [9000]
    assert found["status"]["url"] == f"http://calendar.{namespace}.svc.cluster.local:9000"


async def test_deleting_it_leaves_nothing(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace)
    await until_ready(recorder, namespace)
    await admin.delete(AGENT.resource.path(namespace, "calendar"))
    for resource in (DEPLOYMENT, SERVICE):
        await recorder.wait_for(resource, namespace, "calendar", lambda item: item is None, GARBAGE_SECONDS)
    for pod in recorder.created(POD):
        await recorder.wait_for(POD, namespace, pod, lambda item: item is None)


async def test_ready_pods_without_a_card_are_not_ready(
    cluster: Cluster, namespace: str, recorder: Recorder, mcp_servers: McpServers
) -> None:
    mcp_servers.become(f"calendar.{namespace}", Behaviour(mood=Mood.JUNK))
    await create(cluster.controlplane.admin, namespace)
    found = await recorder.wait_for(AGENT.resource, namespace, "calendar", says("BadAnswer"))
    assert condition(found, "Available")["status"] == "True"
    assert "not JSON" in condition(found, "CardFetched")["message"]


async def test_an_agent_that_hangs_delays_no_other(
    cluster: Cluster, namespace: str, recorder: Recorder, mcp_servers: McpServers
) -> None:
    mcp_servers.become(f"calendar.{namespace}", Behaviour(mood=Mood.HANG))
    await create(cluster.controlplane.admin, namespace)
    await recorder.wait_for(AGENT.resource, namespace, "calendar", says("WaitingForAnswer"))
    await create(cluster.controlplane.admin, namespace, "other")
    await until_ready(recorder, namespace, "other")
    assert condition(recorder.now(AGENT.resource, namespace, "calendar"), "CardFetched")["status"] != "True"


async def test_a_rotated_key_rolls_the_pods_once_and_is_shown_nowhere(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin, secrets = cluster.controlplane.admin, f"/api/v1/namespaces/{namespace}/secrets"
    await create(admin, namespace, agent={"llm": {"apiKeySecretRef": {"name": "keys", "key": "key"}}})
    await recorder.wait_for(AGENT.resource, namespace, "calendar", says("SecretNotFound"))
    assert not recorder.created(DEPLOYMENT)
    await admin.create(secrets, {"metadata": {"name": "keys"}, "stringData": {"key": "canary-one"}})
    await until_ready(recorder, namespace)
    await admin.patch(f"{secrets}/keys", {"stringData": {"key": "canary-two", "other": "x"}})
    edited = await edit(admin, namespace, logging={"level": "warn"})  # a look at once, instead of within a minute
    await until_ready(recorder, namespace, after=edited)
    hashes = {
        version.object["spec"]["template"]["metadata"]["annotations"]["modelyard.dev/config-hash"]
        for version in recorder.history(DEPLOYMENT, namespace, "calendar")
        if version.object
    }
    assert len(hashes) == 2
    assert not [version for version in recorder.log if "canary" in str(version.object)]


SAMPLE = {
    "image": "example.com/calendar:1",
    "timezone": "UTC",
    "port": 8080,
    "host": "0.0.0.0",
    "readTimeout": "30s",
    "writeTimeout": "30s",
    "idleTimeout": "60s",
    "logging": {"level": "info", "format": "json"},
    "telemetry": {"enabled": True, "metrics": {"enabled": True, "port": 9090}},
    "queue": {"enabled": True, "maxSize": 1000, "cleanupInterval": "5m"},
    "tls": {"enabled": False, "secretRef": ""},
    "agent": {
        "enabled": True,
        "tls": {"enabled": True, "secretRef": ""},
        "maxConversationHistory": 10,
        "maxChatCompletionIterations": 5,
        "maxRetries": 3,
        "apiKey": {"secretRef": "keys"},
        "llm": {
            "model": "openai/small",
            "maxTokens": 4096,
            "temperature": "0.7",
            "customHeaders": [{"name": "User-Agent", "value": "Calendar"}],
            "systemPrompt": "You manage calendars.",
        },
    },
    "env": [{"name": "A2A_AGENT_URL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "url"}}}],
}
"""Every field that the example of the original operator has."""
NEWER_SAMPLE = {
    "image": "example.com/calendar:1",
    "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "512Mi"}},
    "agent": {
        "llm": {
            "baseURL": "http://gateway.models.svc.cluster.local:8080/v1",
            "model": "openai/small",
            "apiKeySecretRef": {"name": "keys", "key": "OPENAI_API_KEY"},
        }
    },
    "mcp": {"enabled": True, "servers": ["http://tools:8080"], "endpoint": "/mcp", "refreshInterval": "5m"},
    "telemetry": {
        "enabled": True,
        "traces": {"exporter": {"otlp": {"endpoint": "http://localhost:4318", "protocol": "http/protobuf"}}},
        "metrics": {"exporter": {"prometheus": {"port": 9464}}},
    },
    "env": [{"name": "MOCK", "value": "true"}],
}
"""Every field that the sample of its later versions has."""


@pytest.mark.parametrize("spec", [SAMPLE, NEWER_SAMPLE], ids=["example", "sample"])
async def test_the_manifests_of_the_original_operator_are_taken_as_they_are(
    cluster: Cluster, namespace: str, recorder: Recorder, spec: dict[str, object]
) -> None:
    admin = cluster.controlplane.admin
    secret = {"metadata": {"name": "keys"}, "stringData": {"OPENAI_API_KEY": "x"}}
    await admin.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
    await admin.create(f"{AGENT.resource.path(namespace)}?fieldValidation=Strict", agent(namespace, **spec))
    await until_ready(recorder, namespace)
    service = await admin.get(SERVICE.path(namespace, "calendar"))
    assert [port["name"] for port in service["spec"]["ports"]] == ["http", "metrics"]


async def test_a_gateway_in_place_of_a_url_is_waited_for(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, agent={"llm": {"model": "ollama/small", "gatewayRef": {"name": "edge"}}})
    await recorder.wait_for(AGENT.resource, namespace, "calendar", says("ReferenceNotFound"))
    assert not recorder.created(DEPLOYMENT)
    await gateways.create(admin, namespace)
    await until_ready(recorder, namespace)
    env = (await admin.get(DEPLOYMENT.path(namespace, "calendar")))["spec"]["template"]["spec"]["containers"][0]["env"]
    told = {entry["name"]: entry.get("value") for entry in env}
    assert told["A2A_AGENT_CLIENT_BASE_URL"] == f"http://edge.{namespace}.svc.cluster.local:8080/v1"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"image": ""}, "spec.image"),
        ({"image": "two words"}, "spec.image"),
        ({"port": 0}, "spec.port"),
        ({"port": 9464, "telemetry": {"enabled": True, "metrics": {"enabled": True}}}, "must be another port"),
        (
            {"port": 9500, "telemetry": {"enabled": True, "metrics": {"exporter": {"prometheus": {"port": 9500}}}}},
            "must be another port",
        ),
        ({"host": "127.0.0.1"}, "must not be loopback"),
        ({"card": {"url": "http://[::1]:8080"}}, "must not lead clients to themselves"),
        ({"card": {"url": "http://169.254.169.254"}}, "must not lead clients to themselves"),
        ({"card": {"url": "http://user:secret@agent"}}, "without spaces, commas or credentials"),
        ({"readTimeout": "soon"}, "spec.readTimeout"),
        ({"tls": {"enabled": True}}, "spec.tls.secretRef must name the Secret"),
        ({"agent": {"tls": {"enabled": True}, "llm": {"baseURL": "http://llm"}}}, "must begin with https"),
        ({"agent": {"llm": {"baseURL": "http://llm", "serviceRef": {"name": "chat"}}}}, "exclude each other"),
        ({"agent": {"llm": {"apiKeySecretRef": {"key": "k"}}}}, "must name the Secret that holds the API key"),
        ({"agent": {"llm": {"customHeaders": [{"name": "a", "value": "1,2"}]}}}, "customHeaders[0].value"),
    ],
)
async def test_bad_input_is_refused_by_name(
    cluster: Cluster, namespace: str, spec: dict[str, object], words: str
) -> None:
    path = f"{AGENT.resource.path(namespace)}?dryRun=All"
    with pytest.raises(RawClientError, match=r"Invalid|must") as caught:
        await cluster.controlplane.admin.create(path, agent(namespace, **spec))
    assert words in str(caught.value)
