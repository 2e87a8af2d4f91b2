"""A node of ours is a node like any other to the real control plane."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import Key
from modelyard.local.node.process.reaper_process import StateInUse
from modelyard.local.node.proxy.addresses import HostPort
from tests.local.node.yard import SECONDS, Yard, conditions, node_of, shell, until, yard_of

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from modelyard.local.node.proxy.service_dns import ServiceAddresses
    from modelyard.local.raw_client import RawClient


async def test_a_node_shows_what_the_machine_has(yard: Yard) -> None:
    await yard.start(shell("exec sleep 600"))
    await yard.ready()
    path = f"/api/v1/nodes/{yard.node}"
    node = await until(yard.admin, path, lambda seen: conditions(seen).get("Ready") == "True")
    status = node["status"]
    assert status["capacity"]["cpu"] == str(len(os.sched_getaffinity(0)))
    assert status["capacity"]["pods"] == "110"
    assert status["addresses"][0] == {"type": "InternalIP", "address": "127.0.0.1"}
    assert conditions(node)["DiskPressure"] == "False"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == yard.node


async def test_a_node_renews_its_lease(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    async with yard_of(cluster, namespace, tmp_path, lease=0.05) as yard:
        await until(yard.admin, path, lambda seen: bool(_uid(seen, namespace)))
        first = (await yard.admin.get(f"{path}/{namespace}"))["spec"]["renewTime"]
        await until(yard.admin, f"{path}/{namespace}", lambda lease: lease["spec"]["renewTime"] != first)


async def test_the_real_scheduler_puts_pods_on_the_node(yard: Yard) -> None:
    pod = yard.pod(shell("exec sleep 600"), nodeSelector={"kubernetes.io/hostname": yard.node})
    del pod["spec"]["nodeName"]
    await yard.admin.create(f"{yard.path}/pods", pod)
    seen = await yard.ready()
    assert (seen["spec"]["nodeName"], conditions(seen)["PodScheduled"]) == (yard.node, "True")


async def test_a_deployment_is_available_scales_and_goes_away(yard: Yard) -> None:
    path = f"/apis/apps/v1/namespaces/{yard.namespace}/deployments"
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": yard.pod(shell("exec sleep 600"))["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    await yard.admin.create(path, {"metadata": {"name": "web"}, "spec": spec})
    await until(yard.admin, f"{path}/web", lambda seen: seen["status"].get("availableReplicas") == 2)
    await yard.admin.patch(f"{path}/web", {"spec": {"replicas": 0}})
    await until(yard.admin, f"{yard.path}/pods", lambda seen: not seen["items"])


async def test_a_node_whose_disk_cannot_be_measured_for_a_while_goes_on(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{namespace}"
    state, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    async with yard_of(cluster, namespace, state, lease=0.05) as yard:
        await until(yard.admin, path.rpartition("/")[0], lambda seen: bool(_uid(seen, namespace)))
        state.rename(elsewhere)
        last = await _last_renewal(yard.admin, path)
        elsewhere.rename(state)
        await until(yard.admin, path, lambda lease: lease["spec"]["renewTime"] != last)


async def _last_renewal(admin: RawClient, path: str) -> str:
    """Wait until a Lease is not renewed for as long as ten renewals take, and return when it was last."""
    last = ""
    async with asyncio.timeout(SECONDS):
        while (now := (await admin.get(path))["spec"]["renewTime"]) != last:
            last = now
            await asyncio.sleep(0.5)
    return str(last)


async def test_a_node_that_was_deleted_is_there_again(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    async with yard_of(cluster, namespace, tmp_path, lease=0.05) as yard:
        nodes = await until(yard.admin, "/api/v1/nodes", lambda seen: bool(_uid(seen, namespace)))
        await yard.admin.delete(f"/api/v1/nodes/{namespace}")
        first = _uid(nodes, namespace)
        await until(yard.admin, "/api/v1/nodes", lambda seen: _uid(seen, namespace) not in {"", first})


async def test_a_node_that_is_taken_for_lost_says_at_once_that_it_is_there(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    path = f"/api/v1/nodes/{namespace}"
    async with yard_of(cluster, namespace, tmp_path, lease=600) as yard:
        await until(yard.admin, "/api/v1/nodes", lambda seen: bool(_uid(seen, namespace)))
        node = await until(yard.admin, path, lambda seen: _ready(seen).get("status") == "True")
        lost = [{**entry, "status": "Unknown", "reason": "NodeStatusUnknown"} for entry in node["status"]["conditions"]]
        patched = await yard.admin.patch(f"{path}/status", {"status": {"conditions": lost}})
        assert _ready(patched)["status"] == "Unknown"
        await until(yard.admin, path, lambda seen: set(conditions(seen).values()) <= {"True", "False"})


def _uid(nodes: dict[str, list[dict[str, dict[str, str]]]], name: str) -> str:
    return next((node["metadata"]["uid"] for node in nodes["items"] if node["metadata"]["name"] == name), "")


async def test_two_nodes_cannot_share_a_state_folder(yard: Yard, cluster: Cluster) -> None:
    with pytest.raises(StateInUse, match="is used by another process; stop it, or use another folder"):
        async with node_of(cluster.kubeconfig, yard.state, "second", lock=0.2):
            pytest.fail("the second node must not run")


async def test_pods_get_the_gpus_that_they_ask_for(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, NVIDIA Test'; echo '1, NVIDIA Test'; echo '2, NVIDIA Test'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    async with yard_of(cluster, namespace, tmp_path / "state") as yard:
        script = "echo gpus $CUDA_VISIBLE_DEVICES; exec sleep 600"
        for name, count, seen in (("two", "2", "gpus 0,1\n"), ("none", "0", "gpus\n"), ("one", "1", "gpus 2\n")):
            limits = {"resources": {"limits": {"nvidia.com/gpu": count}}}
            created = await yard.start(shell(script, **limits), name=name)
            await _logged(yard, created, seen)
        node = await yard.admin.get(f"/api/v1/nodes/{namespace}")
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "3"


async def _logged(yard: Yard, pod: dict[str, Any], text: str) -> None:
    log = yard.folder(pod) / "containers" / "c0" / "log"
    async with asyncio.timeout(60):
        while not (log.exists() and log.read_text() == text):
            await asyncio.sleep(0.02)


async def test_names_of_services_are_replaced_in_arguments_and_variables(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    service_addresses = {
        Key(namespace, "web"): {80: HostPort("127.96.1.2", 80)},
        Key("default", "kubernetes"): {443: HostPort("127.96.0.1", 443)},
    }
    async with yard_of(cluster, namespace, tmp_path, lambda: service_addresses) as yard:
        url = f"http://web.{namespace}.svc.cluster.local:80/v1"
        script = f"echo {url} $URL $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"
        await yard.start(shell(script, env=[{"name": "URL", "value": url}]), restartPolicy="Never")
        there = "http://127.96.1.2:80/v1"
        assert yard.log(await yard.over()) == f"{there} {there} 127.96.0.1:443\n"


async def test_a_service_that_is_older_than_the_pod_is_waited_for(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    looks: list[ServiceAddresses] = [{}, {}, {}, {}, {}]
    known = {Key(namespace, "web"): {80: HostPort("127.96.1.2", 80)}}

    def service_addresses() -> ServiceAddresses:
        return looks.pop() if looks else known

    async with yard_of(cluster, namespace, tmp_path, service_addresses) as yard:
        await yard.create("services", "web", spec={"ports": [{"port": 80}]})
        await yard.create("services", "pods", spec={"ports": [{"port": 80}], "clusterIP": "None"})
        names = " ".join(f"http://{name}.{namespace}.svc:80" for name in ("web", "pods", "none"))
        await yard.start(shell(f"echo {names}"), restartPolicy="Never")
        there = f"http://127.96.1.2:80 http://pods.{namespace}.svc:80 http://none.{namespace}.svc:80\n"
        assert yard.log(await yard.over()) == there


async def test_a_bug_in_the_life_of_one_pod_is_survived(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    bugs = [RuntimeError("a bug")]

    def service_addresses() -> ServiceAddresses:
        if bugs:
            raise bugs.pop()
        return {}

    async with yard_of(cluster, namespace, tmp_path, service_addresses, after_bug=0.05) as yard:
        await yard.start(shell("exec sleep 600"))
        await yard.ready()
        assert not bugs
        await yard.delete()
        await yard.gone()


async def test_a_report_that_brings_no_news_moves_no_times(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    path = f"/api/v1/nodes/{namespace}"
    async with yard_of(cluster, namespace, tmp_path, lease=0.1) as yard:
        await until(yard.admin, "/api/v1/nodes", lambda seen: bool(_uid(seen, namespace)))
        first = _ready(await until(yard.admin, path, lambda seen: bool(_ready(seen))))
        beat = first["lastHeartbeatTime"]
        later = await until(yard.admin, path, lambda seen: _ready(seen)["lastHeartbeatTime"] != beat)
        assert _ready(later)["lastTransitionTime"] == first["lastTransitionTime"]


def _ready(node: dict[str, Any]) -> dict[str, str]:
    entries = node["status"].get("conditions", [])
    return next((entry for entry in entries if entry["type"] == "Ready"), {})
