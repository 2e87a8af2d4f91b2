"""`modelyard run` and its neighbours, as the README shows them."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from modelyard.core.resources import SERVICE
from modelyard.local.ports import free_ports
from tests.support.mcps import create, until_ready
from tests.support.mcpserver import McpServers
from tests.support.operators import ROOT, health, modelyard

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from tests.conftest import Kubectl
    from tests.support.recorder import Recorder


async def _until_leading(port: int) -> None:
    async with asyncio.timeout(60):
        while await health(port, "/readyz") != (200, "leader\n"):
            await asyncio.sleep(0.05)


async def test_run_finds_services_at_their_own_addresses(
    cluster: Cluster, namespace: str, recorder: Recorder, installed: Path
) -> None:
    probes, metrics = free_ports(2)
    options = (f"--health-port={probes}", f"--metrics-port={metrics}", "--log-format=text")
    process = await modelyard("run", *options, KUBECONFIG=str(installed), PATH="")
    try:
        await _until_leading(probes)
        await create(cluster.controlplane.admin, namespace)
        service = await recorder.wait_for(SERVICE, namespace, "tools-service", lambda item: item is not None)
        assert service
        async with McpServers().serve(8080, host=service["spec"]["clusterIP"]):
            await until_ready(recorder, namespace)
        assert "modelyard_reconciles_total" in (await health(metrics, "/metrics"))[1]
    finally:
        process.terminate()
        await process.communicate()
    assert process.returncode == 0


async def test_run_for_one_namespace_needs_only_a_role_in_it(
    cluster: Cluster, namespace: str, recorder: Recorder, installed: Path, kubectl: Kubectl
) -> None:
    admin = cluster.controlplane.admin
    role = (ROOT / "deploy" / "rbac-namespace.yaml").read_text().replace("default", namespace)
    renamed = role.replace("namespace: modelyard-system", f"namespace: {namespace}")
    await kubectl("apply", "-f", "-", input=renamed)
    account = await cluster.controlplane.service_account_kubeconfig(namespace, "modelyard")
    (probes,) = free_ports(1)
    process = await modelyard(
        "run", f"--namespace={namespace}", f"--lease-namespace={namespace}", f"--health-port={probes}",
        "--metrics-port=0", KUBECONFIG=str(account), PATH="",
    )  # fmt: skip
    try:
        await _until_leading(probes)
        await create(admin, namespace)
        service = await recorder.wait_for(SERVICE, namespace, "tools-service", lambda item: item is not None)
        assert service
        async with McpServers().serve(8080, host=service["spec"]["clusterIP"]):
            await until_ready(recorder, namespace)
    finally:
        process.terminate()
        await process.communicate()


async def test_a_manifest_is_planned_without_a_cluster() -> None:
    process = await modelyard("plan", "-f", "examples/mcp.yaml", PATH="")
    output, _ = await process.communicate()
    assert [body["kind"] for body in yaml.safe_load_all(output)] == ["Deployment", "Service"]
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "is not YAML"),
        ("just text", "it has no apiVersion; add it"),
        ("{apiVersion: core.inference-gateway.com/v1alpha1, kind: MCP, metadata: {name: a}}", "spec.server.command"),
        (
            "{apiVersion: core.inference-gateway.com/v1alpha1, kind: MCP, metadata: {name: a}, spec: {replicas: -1}}",
            "spec.replicas",
        ),
        (
            "{apiVersion: core.inference-gateway.com/v1alpha1, kind: MCP, metadata: {name: a}, spec: {replica: -1}}",
            "spec.replica is not a field; did you mean replicas?",
        ),
    ],
    ids=["no YAML", "no object", "a blocked plan", "an invalid spec", "a field that there is not"],
)
async def test_what_cannot_be_planned_is_one_clear_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(text)
    process = await modelyard("plan", "-f", str(file), PATH="")
    _, complaint = await process.communicate()
    assert process.returncode == 1
    assert words in complaint.decode()
    assert "Traceback" not in complaint.decode()


async def test_logs_for_people_have_no_colours_where_nobody_looks() -> None:
    prepare = "import structlog; from modelyard.cli.logging_setup import configure_logging as c; c('info', 'text')"
    script = f"{prepare}; structlog.get_logger().info('hello')"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stderr=asyncio.subprocess.PIPE)
    _, written = await process.communicate()
    assert b"hello" in written
    assert b"\x1b" not in written


async def test_without_a_cluster_run_says_so_in_one_line(tmp_path: Path) -> None:
    process = await modelyard("run", HOME=str(tmp_path), PATH="")
    _, complaint = await process.communicate()
    assert process.returncode == 1
    assert "KUBECONFIG" in complaint.decode()
    assert "Traceback" not in complaint.decode()


async def test_the_definitions_are_printed_without_a_cluster() -> None:
    process = await modelyard("crds", PATH="")
    output, _ = await process.communicate()
    assert output.decode() in (ROOT / "deploy" / "crds.yaml").read_text()
