"""What an administrator sets with flags and environment of `modelyard run` reaches the objects in the cluster."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from modelyard.cli.verbs import app
from modelyard.core.resources import DEPLOYMENT, VOLUME_CLAIM
from modelyard.core.source import cache_key
from modelyard.kinds.orchestrator import ORCHESTRATOR
from modelyard.local.ports import free_ports
from tests.support import orchestrators
from tests.support.mcps import condition
from tests.support.operators import health, modelyard
from tests.support.services import CLAIM, SOURCE, create_pair, downloader, engine, until_model, until_service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from tests.support.recorder import Recorder

Json = dict[str, Any]


@asynccontextmanager
async def running(kubeconfig: Path, namespace: str, *flags: str, **env: str) -> AsyncIterator[None]:
    """Run the operator for one namespace, with these settings and no others."""
    (port,) = free_ports(1)
    ours = (f"--namespace={namespace}", f"--health-port={port}", "--metrics-port=0", "--log-format=text")
    process = await modelyard("run", *ours, *flags, KUBECONFIG=str(kubeconfig), PATH="", **env)
    try:
        async with asyncio.timeout(60):
            while await health(port, "/readyz") != (200, "leader\n"):
                await asyncio.sleep(0.05)
        yield
    finally:
        process.terminate()
        _, log = await process.communicate()
    assert "Traceback" not in log.decode(), log.decode()


async def test_a_claim_for_each_service_and_images_as_the_administrator_says(
    cluster: Cluster, namespace: str, recorder: Recorder, installed: Path
) -> None:
    admin = cluster.controlplane.admin
    flags = ("--model-cache-mode=perService", "--model-cache-size=7Gi", "--model-cache-storage-class=standard")
    env = {
        "MODELYARD_RUNTIME_IMAGES": "llamacpp=example.com/llama:1, vllm=example.com/vllm:1",
        "MODELYARD_INIT_CONTAINER_IMAGE": "example.com/fetch:1",
        "MODELYARD_DEFAULT_FSGROUP": "2000",
    }
    async with running(installed, namespace, *flags, **env):
        owner = await create_pair(admin, namespace)
        await until_service(recorder, namespace)
    assert recorder.created(VOLUME_CLAIM) == {"chat-model-cache": 1}
    claim = await admin.get(VOLUME_CLAIM.path(namespace, "chat-model-cache"))
    assert [reference["uid"] for reference in claim["metadata"]["ownerReferences"]] == [owner["metadata"]["uid"]]
    assert claim["spec"]["resources"]["requests"] == {"storage": "7Gi"}
    assert (claim["spec"]["storageClassName"], claim["spec"]["accessModes"]) == ("standard", ["ReadWriteOnce"])
    deployment = await admin.get(DEPLOYMENT.path(namespace, "chat"))
    assert _volume(deployment, "model-cache") == {"persistentVolumeClaim": {"claimName": "chat-model-cache"}}
    assert (engine(deployment)["image"], downloader(deployment)["image"]) == (
        "example.com/llama:1",
        "example.com/fetch:1",
    )
    assert deployment["spec"]["template"]["spec"]["securityContext"]["fsGroup"] == 2000


async def test_a_shared_claim_as_the_administrator_says_at_another_path(
    cluster: Cluster, namespace: str, recorder: Recorder, installed: Path
) -> None:
    admin, path = cluster.controlplane.admin, f"/cache/{cache_key(SOURCE)}/tiny.gguf"
    env = {
        "MODELYARD_MODEL_CACHE_PATH": "/cache",
        "MODELYARD_MODEL_CACHE_SIZE": "3Gi",
        "MODELYARD_MODEL_CACHE_ACCESS_MODE": "ReadWriteMany",
    }
    async with running(installed, namespace, **env):
        await create_pair(admin, namespace)
        await until_service(recorder, namespace)
        await until_model(recorder, namespace, path=path)
    spec = (await admin.get(VOLUME_CLAIM.path(namespace, CLAIM)))["spec"]
    assert (spec["accessModes"], spec["resources"]["requests"]) == (["ReadWriteMany"], {"storage": "3Gi"})
    assert path in engine(await admin.get(DEPLOYMENT.path(namespace, "chat")))["args"]


async def test_without_a_cache_weights_live_and_die_with_their_pod(
    cluster: Cluster, namespace: str, recorder: Recorder, installed: Path
) -> None:
    admin, path = cluster.controlplane.admin, f"/models/{namespace}-tiny.gguf"
    async with running(installed, namespace, "--model-cache-path="):
        await create_pair(admin, namespace)
        await until_service(recorder, namespace)
        await until_model(recorder, namespace, path=path)
    assert not recorder.created(VOLUME_CLAIM)
    deployment = await admin.get(DEPLOYMENT.path(namespace, "chat"))
    assert _volume(deployment, "model-storage") == {"emptyDir": {}}
    assert path in engine(deployment)["args"]


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--model-cache-path", "models"),
        ("--model-cache-path", "/"),
        ("--model-cache-size", "large"),
        ("--model-cache-size", "0"),
        ("--model-cache-size", "-5Gi"),
        ("--model-cache-access-mode", "Sometimes"),
        ("--model-cache-mode", "perModel"),
        ("--model-revalidate-interval", "often"),
        ("--model-revalidate-interval", "0s"),
        ("--default-fsgroup", "staff"),
        ("--runtime-images", "llama=example.com/llama:1"),
        ("--runtime-images", "llamacpp="),
        ("--health-port", "65536"),
        ("--metrics-port", "-1"),
        ("--allowed-host-path-roots", "models"),
        ("--allowed-host-path-roots", "/models/../etc"),
        ("--allowed-remote-hosts", "10.0.0.0/99"),
        ("--host-networks", "10.0.0.0/99"),
        ("--intel-gpu-resource", "i915"),
    ],
)
def test_a_bad_value_is_refused_and_its_flag_named(flag: str, value: str) -> None:
    refused = CliRunner().invoke(app, ["run", flag, value], env={"KUBECONFIG": "/nowhere"})
    assert refused.exit_code == 2
    assert f"Invalid value for '{flag}'" in re.sub(r"[\s│]+", " ", refused.output)


def test_a_bad_network_of_hosts_is_refused_before_anything_starts() -> None:
    refused = CliRunner().invoke(app, ["up", "--host-networks", "10.0.0.0/99"])
    assert refused.exit_code == 2
    assert "--host-networks: '10.0.0.0/99' is neither a host name" in re.sub(r"[\s│]+", " ", refused.output)


async def test_a_bad_value_of_the_environment_stops_the_process_at_once_and_names_the_variable() -> None:
    process = await modelyard("run", PATH="", KUBECONFIG="/nowhere", MODELYARD_MODEL_CACHE_SIZE="large")
    async with asyncio.timeout(60):
        _, complaint = await process.communicate()
    assert process.returncode == 2
    assert "MODELYARD_MODEL_CACHE_SIZE" in complaint.decode()
    assert "Traceback" not in complaint.decode()


def _volume(deployment: Json, name: str) -> Json:
    """Return what a volume is made of."""
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    (found,) = (dict(volume) for volume in volumes if volume["name"] == name)
    del found["name"]
    return found


async def test_an_operator_of_one_namespace_says_that_it_may_not_look_elsewhere(
    cluster: Cluster, namespace: str, recorder: Recorder, installed: Path
) -> None:
    search = {"enabled": True, "serviceDiscovery": {"enabled": True, "namespace": "elsewhere"}}
    async with running(installed, namespace):
        await orchestrators.create(cluster.controlplane.admin, namespace, a2a=search)
        found = await recorder.wait_for(
            ORCHESTRATOR.resource,
            namespace,
            "helper",
            lambda item: condition(item, "Available").get("status") == "True",
        )
    assert condition(found, "Discovered")["reason"] == condition(found, "Ready")["reason"] == "Forbidden"
    assert f"serves only the namespace {namespace}" in condition(found, "Ready")["message"]
