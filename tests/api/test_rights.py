"""The generated role holds what the operator uses, and nothing else."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from modelyard.core.resources import (
    API_GATEWAY,
    AUTOSCALER,
    CONFIG_MAP,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    INGRESS,
    JOB,
    LEASE,
    POD,
    SERVICE_ACCOUNT,
    VOLUME_CLAIM,
)
from modelyard.core.source import cache_key
from modelyard.kinds import ALL
from modelyard.kinds.gateway import GATEWAY
from modelyard.kinds.mcp import MCP
from modelyard.kinds.shared.http_route import HTTP_ROUTE
from modelyard.manifests import rbac
from tests.support import agents, fleets, gateways, modeldeployments, orchestrators
from tests.support.hostdaemon import HostDaemon
from tests.support.mcps import condition, create, edit, says, until_ready
from tests.support.operators import NAMESPACE, running_operator
from tests.support.services import (
    MODELS,
    create_model,
    create_service,
    edit_model,
    edit_service,
    is_held_up,
    report_download,
    until_model,
    until_pod,
    until_service,
)
from tests.support.subjects import MODEL_DEPLOYMENT, ZERFOO

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.conftest import Kubectl
    from tests.support.mcpserver import McpServers
    from tests.support.operators import OperatorProcess
    from tests.support.recorder import Recorder

Json = dict[str, Any]

CHECKED_BY_ADMISSION = {("update", f"{kind.resource.label}/finalizers") for kind in ALL}
"""Needed to create children that block their owner's deletion; `OwnerReferencesPermissionEnforcement` is on here."""
NOT_SERVED_HERE = {
    (verb, resource.label) for resource in (API_GATEWAY, HTTP_ROUTE) for verb in ("create", "delete", "get", "patch")
}
"""Of the Gateway API, which this cluster lacks."""
UNUSED = CHECKED_BY_ADMISSION | NOT_SERVED_HERE
ROUTES = "models: {fast: {deployments: [{provider: ollama, model: a}, {provider: ollama, model: b}]}}"


async def test_every_right_is_used_and_none_is_missing(
    cluster: Cluster, namespace: str, recorder: Recorder, installed: Path, mcp_servers: McpServers, tmp_path: Path,
    kubectl: Kubectl,
) -> None:  # fmt: skip
    # In one namespace only: what is refused in those of other tests, which are being deleted, is no lack of rights.
    log = tmp_path / "operator.log"
    async with running_operator(installed, mcp_servers.port, log, WATCH_NAMESPACE=namespace) as operator:
        await _use_everything(cluster, namespace, recorder, kubectl)
        await _prefetch(cluster.controlplane.admin, namespace, recorder)
        await _serve_and_stop(cluster.controlplane.admin, namespace, recorder, operator)
        await ZERFOO.create(cluster.controlplane.admin, namespace)
        await ZERFOO.until_ready(recorder, namespace)
        await _deploy_and_decommission(cluster.controlplane.admin, namespace, recorder)
        await _run_an_agent(cluster.controlplane.admin, namespace, recorder)
        await _expose_a_gateway(cluster.controlplane.admin, namespace, recorder)
        await _run_a_bot(cluster.controlplane.admin, namespace, recorder)
        await _serve_on_a_host(cluster.controlplane.admin, namespace, recorder)
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                while _unused(await operator.metrics()) != UNUSED:
                    await asyncio.sleep(0.5)  # the Lease is renewed every two seconds
        metrics = await operator.metrics()
    assert _unused(metrics) == UNUSED
    assert not [entry for entry in _requests(metrics) if entry[0] in ("401", "403")]
    assert {(verb, resource) for _, resource, verb in _requests(metrics)} <= _granted()


def _requests(metrics: str) -> list[tuple[str, str, str]]:
    return re.findall(r'api_requests_total\{code="(\d+)",resource="([^"]+)",verb="([^"]+)"\}', metrics)


def _unused(metrics: str) -> set[tuple[str, str]]:
    """Return what is granted and was not used. Lists are for servers that cannot stream the first state."""
    used = {(verb, resource) for _, resource, verb in _requests(metrics)}
    return {right for right in _granted() - used if right[0] != "list"}


def _granted() -> set[tuple[str, str]]:
    return {
        (verb, _label(group, name))
        for rule in [*rbac.rules(ALL), *rbac.lease_rules()]
        for group in rule["apiGroups"]
        for name in rule["resources"]
        for verb in rule["verbs"]
    }


def _label(group: str, name: str) -> str:
    plural, slash, subresource = name.partition("/")
    return f"{plural}.{group}{slash}{subresource}" if group else name


async def _use_everything(cluster: Cluster, namespace: str, recorder: Recorder, kubectl: Kubectl) -> None:
    admin = cluster.controlplane.admin
    lease = LEASE.path(NAMESPACE, "modelyard")
    await admin.delete(lease)
    for name in ("tools-service", "tools"):  # strangers in the way of every child, so that each is looked at
        await kubectl("create", "-n", namespace, "service", "clusterip", name, "--tcp=1")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "another"}
    hpa = {"metadata": {"name": "tools"}, "spec": {"maxReplicas": 2, "scaleTargetRef": target}}
    await admin.create(AUTOSCALER.path(namespace), hpa)
    await create(admin, namespace, hpa={"enabled": True})
    await recorder.wait_for(MCP.resource, namespace, "tools", says("NameConflict"))
    await kubectl("delete", "-n", namespace, "service/tools-service")
    await edit(admin, namespace, replicas=2)
    await recorder.wait_for(MCP.resource, namespace, "tools", lambda item: "HorizontalPodAutoscaler tools" in str(item))
    await admin.delete(AUTOSCALER.path(namespace, "tools"))
    await until_ready(recorder, namespace, after=await edit(admin, namespace, hpa={"config": {"maxReplicas": 7}}))
    await until_ready(recorder, namespace, after=await edit(admin, namespace, hpa={"config": {"maxReplicas": 5}}))
    await until_ready(recorder, namespace, after=await edit(admin, namespace, server={"port": 9000}))
    await edit(admin, namespace, hpa={"enabled": False}, replicas=3)
    await recorder.wait_for(AUTOSCALER, namespace, "tools", lambda item: item is None)
    await recorder.wait_for(DEPLOYMENT, namespace, "tools", lambda item: bool(item) and item["spec"]["replicas"] == 3)
    await edit(admin, namespace, server={"tls": {"secretName": "absent"}})
    await recorder.wait_for(MCP.resource, namespace, "tools", says("SecretNotFound"))
    async with asyncio.timeout(60):
        while not await admin.answers(lease):
            await asyncio.sleep(0.1)


async def _prefetch(admin: RawClient, namespace: str, recorder: Recorder) -> None:
    """Let a Job be looked at, created and deleted."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "x", "image": "x"}]}
    stranger = {"metadata": {"name": "tiny-prefetch"}, "spec": {"suspend": True, "template": {"spec": pod}}}
    await admin.create(JOB.path(namespace), stranger)
    await create_model(admin, namespace, prefetch=True)
    await recorder.wait_for(MODELS, namespace, "tiny", says("NameConflict"))
    await admin.delete(JOB.path(namespace, "tiny-prefetch") + "?propagationPolicy=Background")
    for source in ("org/one", "org/other"):
        await edit_model(admin, namespace, source=source)
        await until_model(recorder, namespace, cacheKey=cache_key(source), phase="Ready")


def _wants_two(item: Json | None) -> bool:
    return item is not None and item["spec"]["replicas"] == 2


async def _serve_and_stop(admin: RawClient, namespace: str, recorder: Recorder, operator: OperatorProcess) -> None:
    """Let the log of a downloader be read, and all children be deleted while their owner stays."""
    await create_model(admin, namespace, "other")
    await create_service(admin, namespace, "talk", modelRef="other", image="simulate.modelyard.dev/hang")
    pod = await until_pod(recorder, namespace, is_held_up, "talk")
    await report_download(admin, pod, state={"running": {}})
    async with asyncio.timeout(60):
        while ("get", f"{POD.label}/log") in _unused(await operator.metrics()):
            await asyncio.sleep(0.1)
    await edit_model(admin, namespace, "other", hardware={"accelerator": "metal"})
    await recorder.wait_for(DEPLOYMENT, namespace, "talk", lambda item: item is None)
    await until_service(recorder, namespace, "talk", phase="Creating", schedulingStatus="WaitingForMetalAgent")
    await edit_service(admin, namespace, "talk", replicas=2)
    await recorder.wait_for(fleets.MODELS, namespace, "talk", _wants_two)
    await edit_model(admin, namespace, "other", hardware={"accelerator": "cpu"})
    await recorder.wait_for(fleets.MODELS, namespace, "talk", lambda item: item is None)


async def _deploy_and_decommission(admin: RawClient, namespace: str, recorder: Recorder) -> None:
    """Let a claim be created, put back and deleted."""
    await MODEL_DEPLOYMENT.create(admin, namespace)
    await MODEL_DEPLOYMENT.until_ready(recorder, namespace)
    name = MODEL_DEPLOYMENT.name
    claim = VOLUME_CLAIM.path(namespace, f"{name}-weights")
    edited = await admin.patch(claim, {"metadata": {"labels": {"modeldeployment": "another"}}})
    await recorder.wait_for_later(
        edited, VOLUME_CLAIM, lambda item: item["metadata"]["labels"]["modeldeployment"] == name
    )
    at_once = {"timeoutSeconds": 0, "delaySeconds": 0}
    deprecated = await modeldeployments.edit(admin, namespace, name, deprecated=True, drain=at_once)
    await modeldeployments.until(recorder, namespace, deprecated, name=name, phase="Decommissioned")


async def _run_an_agent(admin: RawClient, namespace: str, recorder: Recorder) -> None:
    """Let a ConfigMap be read that a variable names."""
    source = {"configMapKeyRef": {"name": "settings", "key": "mode", "optional": True}}
    await agents.create(admin, namespace, env=[{"name": "MODE", "valueFrom": source}])
    await agents.until_ready(recorder, namespace)


async def _expose_a_gateway(admin: RawClient, namespace: str, recorder: Recorder) -> None:
    """Let an account, an Ingress and a ConfigMap be looked at, created, changed and deleted."""
    backend = {"service": {"name": "another", "port": {"number": 80}}}
    strangers = {
        SERVICE_ACCOUNT: {"metadata": {"name": "edge"}},
        CONFIG_MAP: {"metadata": {"name": "edge-routing"}},
        INGRESS: {"metadata": {"name": "edge"}, "spec": {"defaultBackend": backend}},
    }
    for resource, body in strangers.items():
        await admin.create(resource.path(namespace), body)
    routing = {"enabled": True, "config": ROUTES}
    await gateways.create(admin, namespace, routing=routing, ingress={"enabled": True, "host": "a.example.com"})
    for number, (resource, body) in enumerate(strangers.items(), start=2):
        words = f"{resource.kind} {body['metadata']['name']}"
        await recorder.wait_for(GATEWAY.resource, namespace, "edge", lambda item, words=words: words in _ready(item))
        await admin.delete(resource.path(namespace, body["metadata"]["name"]))
        edited = await gateways.edit(admin, namespace, replicas=number)
    await gateways.until_ready(recorder, namespace, after=edited)
    await admin.patch(SERVICE_ACCOUNT.path(namespace, "edge"), {"automountServiceAccountToken": True})
    changed = {"routing": {"config": f"{ROUTES} # changed"}, "ingress": {"host": "b.example.com"}}
    await gateways.until_ready(recorder, namespace, after=await gateways.edit(admin, namespace, **changed))
    off = {"routing": {"enabled": False}, "ingress": {"enabled": False}}
    account = {"serviceAccount": {"create": False, "name": "default"}}
    edited = await gateways.edit(admin, namespace, **off, **account)
    for resource, body in strangers.items():
        await recorder.wait_for(resource, namespace, body["metadata"]["name"], lambda item: item is None)
    await gateways.until_ready(recorder, namespace, after=edited)


def _ready(item: Json | None) -> str:
    return str(condition(item, "Ready").get("message", ""))


async def _run_a_bot(admin: RawClient, namespace: str, recorder: Recorder) -> None:
    """Let a ConfigMap be created, changed and deleted."""
    await orchestrators.create(admin, namespace, a2a=orchestrators.SEARCH)
    await orchestrators.until_ready(recorder, namespace)
    search = {**orchestrators.SEARCH, "agents": ["http://one:8080"]}
    await orchestrators.until_ready(recorder, namespace, after=await orchestrators.edit(admin, namespace, a2a=search))
    await orchestrators.edit(admin, namespace, a2a={"enabled": False})
    await recorder.wait_for(CONFIG_MAP, namespace, "helper-agents", lambda item: item is None)


async def _serve_on_a_host(admin: RawClient, namespace: str, recorder: Recorder) -> None:
    """Let an EndpointSlice be looked at, created, put back and deleted."""
    async with HostDaemon().serving() as daemon:
        name = fleets.slice_name(port=daemon.port)
        stranger = {"metadata": {"name": name}, "addressType": "IPv4", "endpoints": []}
        await admin.create(ENDPOINT_SLICE.path(namespace), stranger)
        await fleets.create_host(admin, namespace, "studio", daemon.port)
        await fleets.create_model(admin, namespace)
        await recorder.wait_for(fleets.MODELS, namespace, "qwen", says("NameConflict"))
        await admin.delete(ENDPOINT_SLICE.path(namespace, name))
        await admin.patch(fleets.MODELS.path(namespace, "qwen"), {"spec": {"memory": "2Gi"}})
        await fleets.until_ready(recorder, namespace)
        edited = await admin.patch(ENDPOINT_SLICE.path(namespace, name), {"endpoints": []})
        await recorder.wait_for_later(edited, ENDPOINT_SLICE, lambda item: bool(item["endpoints"]))
        await admin.patch(fleets.MODELS.path(namespace, "qwen"), {"spec": {"replicas": 0}})
        await recorder.wait_for(ENDPOINT_SLICE, namespace, name, lambda item: item is None)
