"""The samples, the examples and the page of the original operator: they apply as they are, and become what they say."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from modelyard.core import names
from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, INGRESS, SERVICE, SERVICE_ACCOUNT
from modelyard.kinds.agent import AGENT
from modelyard.kinds.gateway import GATEWAY
from modelyard.kinds.mcp import MCP
from modelyard.kinds.orchestrator import ORCHESTRATOR
from tests.support.mcps import condition, says
from tests.support.recorder import recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl
    from tests.support.recorder import Recorder

Json = dict[str, Any]

pytestmark = pytest.mark.usefixtures("standing_operator")

FILE = Path(__file__).parent / "originals.yaml"
KINDS = {kind.resource.kind: kind.resource for kind in (GATEWAY, AGENT, MCP, ORCHESTRATOR)}
CHILDREN = (DEPLOYMENT, SERVICE, SERVICE_ACCOUNT, INGRESS, AUTOSCALER)
EDGE = "inference-gateway"
NAMESPACES = {body["metadata"].get("namespace") for body in yaml.safe_load_all(FILE.read_text())}
SECONDS = 90.0
OTHERWISE = {
    f"{EDGE}/gateway-complete": "GatewayAPINotInstalled",
    f"{EDGE}/auth-keycloak": "GatewayAPINotInstalled",
    "orchestrator/orchestrator": "SecretNotFound",
}
"""What is not Ready: the cluster of tests has no Gateway API, and one example has its Secret in another namespace."""
CREDENTIALS = {
    "metadata": {"name": "telegram-bot-credentials"},
    "stringData": {"token": "canary-of-the-example", "allowedUsers": "1"},
}
STANDARD = {"Available": "True", "Progressing": "True", "ReplicaFailure": "False"}
"""The conditions that the page calls standard."""
CLEANUP = ("delete", "gateway,agent,mcp,orchestrator", "--all", "-A")
QUICK_START = """
apiVersion: v1
kind: Secret
metadata:
  name: openai-secret
  namespace: inference-gateway
type: Opaque
stringData:
  OPENAI_API_KEY: sk-...
---
apiVersion: core.inference-gateway.com/v1alpha1
kind: Gateway
metadata:
  name: my-gateway
  namespace: inference-gateway
spec:
  replicas: 1
  environment: development
  telemetry:
    enabled: true
    metrics:
      enabled: true
      port: 9464
  providers:
    - name: OpenAI
      enabled: true
      env:
        - name: OPENAI_API_KEY
          valueFrom:
            secretKeyRef:
              name: openai-secret
              key: OPENAI_API_KEY
"""


@asynccontextmanager
async def recorded(cluster: Cluster, kubectl: Kubectl) -> AsyncIterator[Recorder]:
    """Record all namespaces, and clean up as the page says: no child is left, and nothing holds it up."""
    async with recording(cluster.controlplane.admin, (*KINDS.values(), *CHILDREN)) as recorder:
        yield recorder
        await kubectl(*CLEANUP)
        await recorder.until(lambda: not left(recorder), SECONDS)


def left(recorder: Recorder) -> set[str]:
    """Return what is left of the samples: objects of the four kinds, and what belongs to them."""
    here = (one for one in recorder.log if one.namespace in NAMESPACES)
    ours = (one for one in here if one.kind in KINDS or names.MANAGER in manager_of(one.object))
    latest = {(one.kind, one.namespace, one.name): one for one in ours}
    return {str(one) for one in latest.values() if one.event != "DELETED"}


def manager_of(item: Json) -> str:
    """Return which program has made an object, as its labels say."""
    return str(item["metadata"].get("labels", {}).get(names.MANAGED_BY, ""))


async def shown(recorder: Recorder, kind: str, namespace: str, name: str, reason: str = "Ready") -> Json:
    """Wait until an object gives this reason, and return its status."""
    found = await recorder.wait_for(KINDS[kind], namespace, name, says(reason), SECONDS)
    assert found
    status: Json = found["status"]
    return status


async def test_samples_and_examples_apply_unchanged_and_become_what_they_say(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    objects = [body for body in yaml.safe_load_all(FILE.read_text()) if body["kind"] in KINDS]
    async with recorded(cluster, kubectl) as recorder:
        await kubectl("apply", "--validate=strict", "-f", str(FILE))
        statuses = {}
        for body in objects:
            space, name = body["metadata"]["namespace"], body["metadata"]["name"]
            place = f"{space}/{name}"
            statuses[place] = await shown(recorder, body["kind"], space, name, OTHERWISE.get(place, "Ready"))
        tools = [f"http://mcp-time-{one}-service.mcp.svc.cluster.local:8080/mcp" for one in "ab"]
        found_tools = await recorder.wait_for(
            GATEWAY.resource, EDGE, EDGE, lambda item: (item or {}).get("status", {}).get("mcpServers") == tools
        )
        assert found_tools
        assert statuses[f"{EDGE}/gateway-with-ingress-simple"]["url"] == "http://api.inference-gateway.local"
        assert statuses[f"{EDGE}/gateway-with-ingress-advanced"]["url"] == "https://api.inference-gateway.local"
        named = "Groq,Cohere,Cloudflare,DeepSeek,Ollama,Google"
        assert statuses[f"{EDGE}/gateway-complete"]["providerSummary"] == named
        assert statuses[f"{EDGE}/gateway-no-rbac"]["serviceAccountName"] == "existing-service-account"
        assert statuses[f"{EDGE}/google-gateway"]["providerSummary"] == "Google"
        assert "no provider qwen-coder" in told(statuses[f"{EDGE}/gpu"], "FieldsIgnored")
        assert "it answers no user" in told(statuses["infer/orchestrator"], "Ready")
        assert statuses["mcp/mcp-sample"]["readyReplicas"] == 2
        assert all(statuses[place]["card"]["version"] == "1.0" for place in agents_of(objects))
        assert recorder.now(AUTOSCALER, "mcp", "mcp-memory-server")
        await cluster.controlplane.admin.create("/api/v1/namespaces/orchestrator/secrets", CREDENTIALS)
        found = await shown(recorder, "Orchestrator", "orchestrator", "orchestrator")
        hosts = [f"http://{name}.agents.svc.cluster.local:8080" for name in ("google-calendar-agent", "mock-agent")]
        assert (found["discoveredAgents"], found["discoveredMCPs"]) == (hosts, tools)
        assert not [version for version in recorder.log if "canary" in str(version.object)]


def agents_of(objects: list[Json]) -> list[str]:
    """Return where the Agents among objects are."""
    found = (body["metadata"] for body in objects if body["kind"] == "Agent")
    return [f"{meta['namespace']}/{meta['name']}" for meta in found]


def told(status: Json, kind: str) -> str:
    """Return what a condition of a status says."""
    return str(condition({"status": status}, kind)["message"])


async def test_the_quick_start_its_status_and_its_cleanup_work_as_written(cluster: Cluster, kubectl: Kubectl) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EDGE}}
    await kubectl("apply", "-f", "-", input=yaml.safe_dump(namespace))
    async with recorded(cluster, kubectl) as recorder:
        await kubectl("apply", "--validate=strict", "-f", "-", input=QUICK_START)
        found = await shown(recorder, "Gateway", EDGE, "my-gateway")
        url = f"http://my-gateway.{EDGE}.svc.cluster.local:8080"
        head, row = (await kubectl("get", "gateway", "-n", EDGE)).splitlines()
        assert head.split() == ["NAME", "PHASE", "REASON", "URL", "PORT", "PROVIDERS", "MCPS", "AGE"]
        assert row.split()[:7] == ["my-gateway", "Running", "Ready", url, "8080", "OpenAI", "0"]
        assert row.split()[:2] == (await kubectl("get", "gateway", "-A")).splitlines()[-1].split()[1:3]
        assert "Responding" in await kubectl("describe", "gateway", "my-gateway", "-n", EDGE)
        assert (found["phase"], found["readyReplicas"], found["availableReplicas"]) == ("Running", 1, 1)
        assert {one: condition({"status": found}, one)["status"] for one in STANDARD} == STANDARD
        assert not [version for version in recorder.log if "sk-..." in str(version.object)]
