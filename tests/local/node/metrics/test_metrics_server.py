"""`kubectl top` shows what pods use, autoscalers go by it, and RBAC decides who may see it."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from msgspec import Struct

from modelyard.local.controlplane import ControlPlane
from modelyard.local.node.metrics.metrics_server import MetricsServer
from modelyard.local.raw_client import RawClientError
from modelyard.local.up.metrics_api import API_SERVICE, SERVER_NAME, register_metrics
from modelyard.manifests.operator import namespace as operator_namespace
from tests.local.node.yard import Yard, conditions, node_of, shell, until
from tests.support.accounts import until_allowed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.kube.client import Client

SECONDS = 120.0
METRICS = "/apis/metrics.k8s.io/v1beta1"
NODE = "measured"
BUSY = "while :; do :; done"

Json = dict[str, Any]


class Machine(Struct):
    """A control plane with one node and its metrics server."""

    plane: ControlPlane
    yard: Yard
    port: int

    async def kubectl(self, *args: str, kubeconfig: Path | None = None) -> tuple[int | None, str, str]:
        process = await asyncio.create_subprocess_exec(
            *(str(self.plane.kubectl), f"--kubeconfig={kubeconfig or self.plane.kubeconfig}", *args),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(SECONDS):
            output, complaint = await process.communicate()
        return process.returncode, output.decode(), complaint.decode()

    async def top(self, *args: str) -> dict[str, list[str]]:
        """Return the words of each line of `kubectl top`, by its first word."""
        code, output, complaint = await self.kubectl("top", *args, "--no-headers")
        assert code == 0, complaint
        return {line.split()[0]: line.split()[1:] for line in output.splitlines()}


@pytest.fixture
async def machine(plane: ControlPlane, client: Client, tmp_path: Path) -> AsyncIterator[Machine]:
    server = MetricsServer(tmp_path, client, NODE, plane.extension_trust(SERVER_NAME))
    await plane.admin.ensure("/api/v1/namespaces", operator_namespace())
    async with node_of(plane.kubeconfig, tmp_path, NODE), server.serving() as port:
        await register_metrics(client, port, plane.ca)
        path = API_SERVICE.path(name="v1beta1.metrics.k8s.io")
        await until(plane.admin, path, lambda seen: conditions(seen).get("Available") == "True")
        yield Machine(plane, Yard(plane.admin, "default", NODE, tmp_path), port)
        # An API without a server would keep namespaces of other tests from being deleted.
        await plane.admin.delete(path)
    await plane.admin.delete(f"/api/v1/nodes/{NODE}")


def _millicores(text: str) -> int:
    assert text.endswith("m"), text
    return int(text.removesuffix("m"))


async def test_top_shows_what_pods_and_the_node_use(machine: Machine) -> None:
    yard = machine.yard
    await yard.start(shell(BUSY), shell("exec sleep 600"), name="busy")
    await yard.start(shell("exec sleep 600"), name="idle")
    for pod in ("busy", "idle"):
        await yard.ready(pod)
    # What a process does at its start is not what it uses.
    await asyncio.sleep(2)
    pods = await machine.top("pods")
    # Other programs of this machine may take a part of the CPU.
    assert 50 < _millicores(pods["busy"][0]) < 1150
    assert _millicores(pods["idle"][0]) < 50
    assert pods["idle"][1].endswith("Mi")
    code, output, _ = await machine.kubectl("top", "pod", "busy", "--containers", "--no-headers")
    assert (code, [line.split()[:2] for line in output.splitlines()]) == (0, [["busy", "c0"], ["busy", "c1"]])
    node = (await machine.top("nodes"))[NODE]
    assert _millicores(node[0]) > 100
    assert all(word.endswith(end) for word, end in zip(node, ("m", "%", "Mi", "%"), strict=True))
    for pod in ("busy", "idle"):
        await yard.delete(pod)


async def test_selectors_choose_as_they_do_for_pods(machine: Machine) -> None:
    yard, admin = machine.yard, machine.plane.admin
    for name in ("one", "two"):
        body = yard.pod(shell("exec sleep 600"), name=name)
        await admin.create(f"{yard.path}/pods", {**body, "metadata": {"name": name, "labels": {"which": name}}})
    pods = f"{METRICS}/namespaces/default/pods"
    await until(admin, f"{pods}?labelSelector=which", lambda seen: len(seen["items"]) == 2)
    for query, names in {
        "labelSelector=which": ["one", "two"],
        "labelSelector=which+in+(two,three)": ["two"],
        "labelSelector=which!=two,which": ["one"],
        "fieldSelector=metadata.name=one": ["one"],
    }.items():
        found = await admin.get(f"{pods}?{query}")
        assert [each["metadata"]["name"] for each in found["items"]] == names
    one = await admin.get(f"{pods}/one")
    assert (one["kind"], one["metadata"]["labels"], [each["name"] for each in one["containers"]]) == (
        "PodMetrics",
        {"which": "one"},
        ["c0"],
    )
    with pytest.raises(RawClientError, match=r'404 .*pods "absent" not found'):
        await admin.get(f"{pods}/absent")
    with pytest.raises(RawClientError, match=r"400 .*expected: !, identifier"):
        await admin.get(f"{pods}?labelSelector=((")
    for name in ("one", "two"):
        await yard.delete(name)


async def test_only_users_with_a_role_see_metrics(machine: Machine) -> None:
    plane = machine.plane
    reader, other = (plane.client_kubeconfig(name) for name in ("metrics-reader", "metrics-other"))
    view = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "metrics-reader"}
    await plane.admin.ensure(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        {"metadata": {"name": "metrics-reader"}, "roleRef": view, "subjects": [subject]},
    )
    pods = {"group": "metrics.k8s.io", "resource": "pods", "verb": "list", "namespace": "default"}
    await until_allowed(plane, "metrics-reader", pods)
    raw = ("get", "--raw", f"{METRICS}/namespaces/default/pods")
    code, output, _ = await machine.kubectl(*raw, kubeconfig=reader)
    assert (code, json.loads(output)["kind"]) == (0, "PodMetricsList")
    _, _, complaint = await machine.kubectl("top", "pods", kubeconfig=other)
    assert 'User "metrics-other" cannot list resource "pods" in API group "metrics.k8s.io"' in complaint
    _, _, complaint = await machine.kubectl("top", "nodes", kubeconfig=reader)
    assert "Forbidden" in complaint


@pytest.mark.parametrize("user", ["", "modelyard-front-proxy"])
async def test_only_the_api_server_reaches_the_metrics_server(machine: Machine, user: str) -> None:
    context = ssl.create_default_context(cafile=str(machine.plane.ca))
    context.check_hostname = False
    if user:
        # The right name, but of the authority that signs for every user.
        authority = machine.plane._authority
        identity = authority.store(user, authority.client(user))
        context.load_cert_chain(identity.certificate, identity.key)
    async with aiohttp.ClientSession(f"https://127.0.0.1:{machine.port}") as session:
        with pytest.raises(aiohttp.ClientError):
            async with session.get(METRICS, ssl=context, headers={"X-Remote-User": "admin"}):
                pass


async def test_an_autoscaler_adds_pods_when_the_cpu_is_busy(machine: Machine) -> None:
    yard, admin = machine.yard, machine.plane.admin
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    worker = shell(BUSY, resources={"requests": {"cpu": "100m"}})
    template = {"metadata": {"labels": {"app": "hpa"}}, "spec": yard.pod(worker)["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "hpa"}}, "template": template}
    await admin.create(deployments, {"metadata": {"name": "hpa"}, "spec": spec})
    await until(admin, f"{deployments}/hpa", lambda seen: seen["status"].get("readyReplicas") == 1)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hpa"}
    goal = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    rule = {"scaleTargetRef": target, "maxReplicas": 2, "metrics": [{"type": "Resource", "resource": goal}]}
    await admin.create(autoscalers, {"metadata": {"name": "hpa"}, "spec": rule})
    seen = await until(admin, f"{autoscalers}/hpa", lambda seen: seen["status"].get("desiredReplicas") == 2)
    current = seen["status"]["currentMetrics"][0]["resource"]["current"]
    assert 100 < current["averageUtilization"] < 1150
    await until(admin, f"{deployments}/hpa", lambda seen: seen["status"].get("readyReplicas") == 2)
    await admin.delete(f"{autoscalers}/hpa")
    await admin.delete(f"{deployments}/hpa")
    await until(admin, f"{yard.path}/pods?labelSelector=app=hpa", lambda seen: not seen["items"])
