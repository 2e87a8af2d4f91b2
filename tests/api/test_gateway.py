"""The life of a Gateway on a real cluster, under the operator's own role."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from modelyard.core.resources import (
    API_GATEWAY,
    AUTOSCALER,
    CONFIG_MAP,
    DEPLOYMENT,
    INGRESS,
    POD,
    SERVICE,
    SERVICE_ACCOUNT,
)
from modelyard.kinds.gateway import GATEWAY
from modelyard.kinds.shared.http_route import HTTP_ROUTE
from modelyard.local.raw_client import RawClientError
from tests.kinds.cases import differences
from tests.support import mcps, services
from tests.support.gateways import create, edit, gateway, until_ready, until_says
from tests.support.mcps import condition, expect_writes
from tests.support.mcpserver import Behaviour
from tests.support.operators import ROOT

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from tests.support.mcpserver import McpServers
    from tests.support.recorder import Recorder

Json = dict[str, Any]

pytestmark = pytest.mark.usefixtures("standing_operator")

GARBAGE_SECONDS = 90.0
STRICT = "dryRun=All&fieldValidation=Strict"
SIX_WRITES = {
    "create serviceaccounts": 1,
    "create deployments": 1,
    "create services": 1,
    "patch gateways/status": 3,
}
OF_THE_ORIGINAL = tuple(yaml.safe_load_all((Path(__file__).parent / "gateways.yaml").read_text()))


def template(recorder: Recorder, namespace: str, name: str = "edge") -> Json:
    """Return the pod template of the latest Deployment."""
    found = recorder.now(DEPLOYMENT, namespace, name)
    assert found
    pod: Json = found["spec"]["template"]
    return pod


def env(recorder: Recorder, namespace: str) -> dict[str, str]:
    """Return the plain variables of the container."""
    entries = template(recorder, namespace)["spec"]["containers"][0]["env"]
    return {entry["name"]: entry.get("value", "") for entry in entries if "valueFrom" not in entry}


@pytest.mark.quick
async def test_it_becomes_ready_with_three_children_and_three_status_writes(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    await create(cluster.controlplane.admin, namespace)
    await until_ready(recorder, namespace)
    await expect_writes(cluster.controlplane.audit_log, namespace, SIX_WRITES)
    history = recorder.history(GATEWAY.resource, namespace, "edge")
    shown = ("Available", "Responding", "Ready")
    steps = [version.conditions for version in history if version.conditions]
    assert [tuple(step[kind]["status"] for kind in shown) for step in steps] == [
        ("False", "Unknown", "False"),
        ("True", "Unknown", "False"),
        ("True", "True", "True"),
    ]
    assert [version.status["phase"] for version in history if version.status] == ["Pending", "Running", "Running"]


@pytest.mark.parametrize("example", ["gateway", "gateway-complete", "gateway-models"])
async def test_our_examples_apply_with_strict_validation(cluster: Cluster, namespace: str, example: str) -> None:
    found = yaml.safe_load_all((ROOT / "examples" / f"{example}.yaml").read_text())
    (body,) = [body for body in found if body["kind"] == "Gateway"]
    await cluster.controlplane.admin.create(f"{GATEWAY.resource.path(namespace)}?{STRICT}", body)


@pytest.mark.parametrize("body", OF_THE_ORIGINAL, ids=lambda body: body["metadata"]["name"])
async def test_what_was_written_for_the_original_operator_applies_unchanged(
    cluster: Cluster, namespace: str, body: Json
) -> None:
    stored = await cluster.controlplane.admin.create(f"{GATEWAY.resource.path(namespace)}?{STRICT}", body)
    assert not differences(body["spec"], stored["spec"])


async def test_an_edit_reaches_all_ports_and_what_is_switched_off_goes(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    routes = "models: {fast: {deployments: [{provider: ollama, model: a}, {provider: ollama, model: b}]}}"
    await create(
        admin,
        namespace,
        routing={"enabled": True, "config": routes},
        ingress={"enabled": True, "host": "api.example.com"},
        hpa={"enabled": True},
    )
    found = await until_ready(recorder, namespace)
    assert found["status"]["url"] == "http://api.example.com"
    bystander = {"metadata": {"name": "bystander"}, "data": {"routing.yaml": ""}}
    await admin.create(CONFIG_MAP.path(namespace), bystander)
    edited = await edit(
        admin,
        namespace,
        server={"port": 9000},
        service={"port": 80},
        routing={"enabled": False},
        ingress={"enabled": False},
        hpa={"enabled": False},
    )
    found = await until_ready(recorder, namespace, after=edited)
    assert found["status"]["url"] == f"http://edge.{namespace}.svc.cluster.local:80"
    for resource, name in ((CONFIG_MAP, "edge-routing"), (INGRESS, "edge"), (AUTOSCALER, "edge-hpa")):
        await recorder.wait_for(resource, namespace, name, lambda item: item is None)
    assert recorder.now(CONFIG_MAP, namespace, "bystander")
    assert env(recorder, namespace)["SERVER_PORT"] == "9000"
    service = recorder.now(SERVICE, namespace, "edge")
    assert service
    (port,) = service["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (80, "http")


async def test_a_new_key_replaces_the_pods_once_and_shows_nowhere(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    variable = {"name": "GROQ_API_KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "groq"}}}
    await create(admin, namespace, providers=[{"name": "groq", "env": [variable]}])
    found = await until_says(recorder, namespace, "SecretNotFound")
    assert "the Secret keys named by spec.providers" in condition(found, "Ready")["message"]
    assert not recorder.created(DEPLOYMENT)
    secret = {"metadata": {"name": "keys"}, "stringData": {"groq": "canary-1", "other": "canary-2"}}
    await admin.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
    await until_ready(recorder, namespace)
    before = template(recorder, namespace)["metadata"]["annotations"]
    await admin.patch(f"/api/v1/namespaces/{namespace}/secrets/keys", {"stringData": {"groq": "canary-3"}})
    # Secrets are not watched; an edit that changes no pod is a reason to look.
    edited = await edit(admin, namespace, service={"annotations": {"example.com/seen": "yes"}})
    await until_ready(recorder, namespace, after=edited)
    after = template(recorder, namespace)["metadata"]["annotations"]
    assert before.keys() == after.keys()
    assert before != after
    templates = [version.object["spec"]["template"] for version in recorder.history(DEPLOYMENT, namespace, "edge")]
    assert len({str(each["metadata"].get("annotations")) for each in templates}) == 2
    assert not [version for version in recorder.log if "canary" in str(version.object)]


async def test_a_provider_that_fails_is_named_and_comes_back(
    cluster: Cluster, namespace: str, recorder: Recorder, mcp_servers: McpServers
) -> None:
    mcp_servers.become(f"edge.{namespace}", Behaviour(failing=("ollama",)))
    await create(cluster.controlplane.admin, namespace)
    found = await until_says(recorder, namespace, "ProviderFailing")
    assert "provider ollama refuses its key, or cannot be reached" in condition(found, "Ready")["message"]
    assert found["status"]["phase"] == "Running"
    mcp_servers.become(f"edge.{namespace}", Behaviour())
    assert (await until_ready(recorder, namespace))["status"]["modelCount"] == 2


async def test_a_service_of_the_namespace_is_waited_for_and_followed(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, providers=[{"name": "llamacpp", "serviceRef": {"name": "chat"}}])
    await until_says(recorder, namespace, "ReferenceNotFound")
    assert not recorder.created(DEPLOYMENT)
    await services.create_pair(admin, namespace)
    await until_ready(recorder, namespace)
    assert env(recorder, namespace)["LLAMACPP_API_URL"] == f"http://chat.{namespace}.svc.cluster.local:8080/v1"
    await services.edit_service(admin, namespace, endpoint={"port": 9000})
    await recorder.until(lambda: env(recorder, namespace)["LLAMACPP_API_URL"].endswith(":9000/v1"))
    await until_ready(recorder, namespace)


async def test_tool_servers_come_and_go_with_their_labels(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    discovery = {"enabled": True, "selector": {"matchLabels": {"group": "one"}}}
    await create(admin, namespace, mcp={"enabled": True, "serviceDiscovery": discovery})
    await until_ready(recorder, namespace)
    await mcps.create(admin, namespace)
    path = mcps.MCP.resource.path(namespace, "tools")
    await admin.patch(path, {"metadata": {"labels": {"group": "one"}}})
    url = f"http://tools-service.{namespace}.svc.cluster.local:8080/mcp"
    await recorder.until(lambda: env(recorder, namespace)["MCP_SERVERS"] == url)
    await admin.patch(path, {"metadata": {"labels": {"group": None}}})
    await recorder.until(lambda: env(recorder, namespace)["MCP_SERVERS"] == "")
    assert (await until_ready(recorder, namespace))["status"]["mcpServerCount"] == 0


async def test_a_stranger_under_a_childs_name_is_left_alone(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    stranger = await admin.create(SERVICE_ACCOUNT.path(namespace), {"metadata": {"name": "edge"}})
    await create(admin, namespace)
    found = await until_says(recorder, namespace, "NameConflict")
    for words in ("ServiceAccount edge", "set spec.serviceAccount.create to false"):
        assert words in condition(found, "Ready")["message"]
    assert not recorder.created(DEPLOYMENT)
    edited = await edit(admin, namespace, serviceAccount={"create": False})
    await until_ready(recorder, namespace, after=edited)
    assert (await admin.get(SERVICE_ACCOUNT.path(namespace, "edge")))["metadata"]["uid"] == stranger["metadata"]["uid"]


async def test_without_the_gateway_api_it_runs_and_says_what_is_missing(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    hosts = {"hostnames": ["api.example.com"]}
    await create(admin, namespace, gatewayAPI={"enabled": True, "httpRoute": hosts})
    found = await until_says(recorder, namespace, "GatewayAPINotInstalled")
    for resource in (HTTP_ROUTE, API_GATEWAY):
        assert resource.label in condition(found, "Ready")["message"]
    assert condition(found, "Responding")["status"] in ("True", "Unknown")
    assert recorder.created(POD)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"auth": {"enabled": True, "provider": "jwt"}}, "must be oidc"),
        ({"server": {"host": "127.0.0.1"}}, "must not be loopback"),
        ({"server": {"timeouts": {"read": "soon"}}}, "spec.server.timeouts.read"),
        ({"routing": {"enabled": True}}, "either config or configMapRef"),
        ({"guardrails": {"enabled": True}}, "nothing is checked"),
        ({"guardrails": {"failMode": "closed"}}, "spec.guardrails.failMode"),
        ({"ingress": {"enabled": True}}, "either host or hosts"),
        ({"service": {"type": "ExternalName"}}, "spec.service.type"),
        ({"telemetry": {"enabled": True, "metrics": {"port": 8080}}}, "another port"),
        ({"providers": [{"name": "mine", "serviceRef": {"name": "chat"}}]}, "such as llamacpp"),
        ({"serviceSelector": {}, "providers": [{"name": "llamacpp"}]}, "takes the place"),
        ({"serviceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "need values"),
        ({"routing": {"configMapRef": {"name": "a", "key": "b", "optional": True}}}, "cannot be optional"),
        ({"service": {"annotations": {"two words": "x"}}}, "keys must be names"),
        ({"image": "two words"}, "must be an image"),
        ({"replicas": 0}, "spec.replicas"),
        ({"unknown": True}, "unknown field"),
    ],
)
async def test_the_api_server_refuses_what_the_gateway_cannot_serve(
    cluster: Cluster, namespace: str, spec: Json, says: str
) -> None:
    with pytest.raises(RawClientError, match=says):
        await cluster.controlplane.admin.create(
            f"{GATEWAY.resource.path(namespace)}?{STRICT}", gateway(namespace, **spec)
        )


async def test_deleting_it_leaves_nothing(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, hpa={"enabled": True}, ingress={"enabled": True, "host": "api.example.com"})
    await until_ready(recorder, namespace)
    await admin.delete(GATEWAY.resource.path(namespace, "edge"))
    children = (
        (DEPLOYMENT, "edge"),
        (SERVICE, "edge"),
        (SERVICE_ACCOUNT, "edge"),
        (INGRESS, "edge"),
        (AUTOSCALER, "edge-hpa"),
    )
    for resource, name in children:
        await recorder.wait_for(resource, namespace, name, lambda item: item is None, GARBAGE_SECONDS)
