"""The life of a Model on a real cluster, under the operator's own role."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web

from modelyard.core.policy import Policy
from modelyard.core.resources import JOB, POD, VOLUME_CLAIM
from modelyard.core.source import cache_key
from modelyard.kinds.model import MODEL
from modelyard.local.ports import free_ports
from modelyard.local.raw_client import RawClientError
from tests.support.mcps import condition, expect_writes
from tests.support.operators import ROOT, running_operator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.conftest import Kubectl
    from tests.support.mcpserver import McpServers
    from tests.support.operators import OperatorProcess
    from tests.support.recorder import Recorder

Json = dict[str, Any]

GGUF = (ROOT / "tests" / "data" / "yard.gguf").read_bytes()
POLICY = Policy(remote_hosts=("127.0.0.1",), revalidate_seconds=1.0)
NOBODY = "https://weights.invalid/tiny.gguf"


class Upstream:
    """Where weights come from: one file, of which there may be another version later on, or trouble."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}/yard.gguf"
        self.status, self.etag, self.asked = 200, '"one"', 0

    async def answer(self, _: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(status=self.status, body=GGUF, headers={"ETag": self.etag})

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Upstream]:
        app = web.Application()
        app.router.add_get("/yard.gguf", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        try:
            yield self
        finally:
            await runner.cleanup()

    async def until_asked(self, times: int) -> None:
        """Wait until the operator has come for this many more looks."""
        wanted = self.asked + times
        async with asyncio.timeout(60):
            while self.asked < wanted:
                await asyncio.sleep(0.05)


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream().serving() as running:
        yield running


@pytest.fixture
async def curious(installed: Path, mcp_servers: McpServers, tmp_path: Path) -> AsyncIterator[OperatorProcess]:
    """An operator that may look at this machine, and looks often."""
    policy = msgspec.json.encode(POLICY).decode()
    async with running_operator(installed, mcp_servers.port, tmp_path / "operator.log", POLICY=policy) as running:
        yield running


def model(namespace: str, name: str = "tiny", **spec: Any) -> Json:
    return {
        "apiVersion": MODEL.resource.api_version,
        "kind": MODEL.resource.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    }


async def create(admin: RawClient, namespace: str, name: str = "tiny", **spec: Any) -> Json:
    return await admin.create(MODEL.resource.path(namespace), model(namespace, name, **spec))


async def until(
    recorder: Recorder, namespace: str, name: str = "tiny", *, phase: str = "Ready", after: int = 1
) -> Json:
    """Wait until a Model is in a phase, for this generation or a later one."""

    def reached(item: Json | None) -> bool:
        status = (item or {}).get("status", {})
        return bool(status.get("phase") == phase and status.get("observedGeneration", 0) >= after)

    found = await recorder.wait_for(MODEL.resource, namespace, name, reached, 40.0)
    assert found
    return found


async def until_drifted(recorder: Recorder, namespace: str, truth: str) -> Json:
    """Wait until a Model says whether upstream has changed."""
    found = await recorder.wait_for(
        MODEL.resource, namespace, "tiny", lambda item: condition(item, "SourceDrifted").get("status") == truth, 40.0
    )
    assert found
    return found


@pytest.mark.usefixtures("operator")
async def test_kubectl_shows_it(cluster: Cluster, namespace: str, recorder: Recorder, kubectl: Kubectl) -> None:
    await create(cluster.controlplane.admin, namespace, source=NOBODY)
    await until(recorder, namespace)
    head, row = (await kubectl("get", "mdl", "-n", namespace)).splitlines()
    assert head.split() == ["NAME", "PHASE", "REASON", "SIZE", "ACCELERATOR", "AGE"]
    assert row.split()[:5] == ["tiny", "Ready", "Ready", "0", "cpu"]


@pytest.mark.usefixtures("curious")
@pytest.mark.quick
async def test_it_becomes_ready_with_one_write_and_a_dead_upstream_costs_no_more(
    cluster: Cluster, namespace: str, recorder: Recorder, upstream: Upstream
) -> None:
    upstream.status = 500
    await create(cluster.controlplane.admin, namespace, source=upstream.url)
    found = await until(recorder, namespace)
    assert condition(found, "SourceDrifted")["reason"] == "UpstreamUnreachable"
    await upstream.until_asked(5)
    # What the operator does next shows that it has dealt with the answers before.
    await create(cluster.controlplane.admin, namespace, "other", source="org/repo")
    await until(recorder, namespace, "other")
    await expect_writes(cluster.controlplane.audit_log, namespace, {"patch models/status": 2})


@pytest.mark.usefixtures("curious")
async def test_a_source_without_the_file_fails_the_model_until_it_has_it(
    cluster: Cluster, namespace: str, recorder: Recorder, upstream: Upstream
) -> None:
    upstream.status = 404
    await create(cluster.controlplane.admin, namespace, source=upstream.url)
    found = await until(recorder, namespace, phase="Failed")
    assert condition(found, "Ready")["reason"] == "ModelSourceNotFound"
    assert "HTTP 404; check the spelling of spec.source" in condition(found, "Ready")["message"]
    expected = {"patch models/status": 2, "create events": 1}
    await expect_writes(cluster.controlplane.audit_log, namespace, expected)
    upstream.status = 200
    await until_drifted(recorder, namespace, "False")
    phases = [version.status.get("phase") for version in recorder.history(MODEL.resource, namespace, "tiny")]
    assert list(dict.fromkeys(filter(None, phases))) == ["Ready", "Failed"]
    assert phases[-1] == "Ready"


@pytest.mark.usefixtures("curious")
async def test_a_look_at_upstream_tells_size_version_and_header(
    cluster: Cluster, namespace: str, recorder: Recorder, upstream: Upstream
) -> None:
    await create(cluster.controlplane.admin, namespace, source=upstream.url)
    status = (await until_drifted(recorder, namespace, "False"))["status"]
    assert status["sourceETag"] == '"one"'
    assert status["sourceContentLength"] == len(GGUF)
    assert status["gguf"]["architecture"]
    assert status["lastRevalidated"]
    await upstream.until_asked(3)
    await expect_writes(cluster.controlplane.audit_log, namespace, {"patch models/status": 2})


@pytest.mark.usefixtures("curious")
async def test_another_version_upstream_is_noticed_and_so_is_the_way_back(
    cluster: Cluster, namespace: str, recorder: Recorder, upstream: Upstream
) -> None:
    await create(cluster.controlplane.admin, namespace, source=upstream.url)
    await until_drifted(recorder, namespace, "False")
    upstream.etag = '"two"'
    drifted = await until_drifted(recorder, namespace, "True")
    assert drifted["status"]["sourceETag"] == '"one"'
    assert drifted["status"]["phase"] == "Ready"
    upstream.etag = '"one"'
    await until_drifted(recorder, namespace, "False")


@pytest.mark.usefixtures("operator")
@pytest.mark.quick
async def test_another_source_is_another_model(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin, other = cluster.controlplane.admin, "https://weights.invalid/other.gguf"
    await create(admin, namespace, source=NOBODY)
    assert (await until(recorder, namespace))["status"]["cacheKey"] == cache_key(NOBODY)
    await admin.patch(MODEL.resource.path(namespace, "tiny"), {"spec": {"source": other}})
    status = (await until(recorder, namespace, after=2))["status"]
    assert status["cacheKey"] == cache_key(other)
    assert status["path"] == f"/models/{cache_key(other)}/tiny.gguf"


@pytest.mark.usefixtures("operator")
async def test_a_claim_is_noticed_as_soon_as_it_is_there(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, source="pvc://disk/tiny.gguf")
    failed = await until(recorder, namespace, phase="Failed")
    assert condition(failed, "Ready")["reason"] == "PVCNotFound"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await admin.create(VOLUME_CLAIM.path(namespace), {"metadata": {"name": "disk"}, "spec": spec})
    assert (await until(recorder, namespace))["status"]["path"] == "/model-source/tiny.gguf"


@pytest.mark.usefixtures("operator")
async def test_a_secret_is_found_a_moment_after_it_was_made(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, source="org/repo", sourceSecretRef={"name": "hub"})
    failed = await until(recorder, namespace, phase="Failed")
    assert condition(failed, "Ready")["reason"] == "SecretNotFound"
    secret = {"metadata": {"name": "hub"}, "stringData": {"HF_TOKEN": "hf-secret"}}
    await admin.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
    found = await until(recorder, namespace)
    assert "hf-secret" not in str(found)


@pytest.mark.usefixtures("operator")
async def test_a_prefetch_fills_the_cache_and_leaves_it_behind(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, source="org/repo", prefetch=True)
    found = await until(recorder, namespace)
    assert condition(found, "Available")["reason"] == "ModelPrefetched"
    assert condition(found, "WeightsPresent")["status"] == "True"
    phases = [version.status.get("phase") for version in recorder.history(MODEL.resource, namespace, "tiny")]
    assert "Downloading" in phases
    assert recorder.created(JOB) == {"tiny-prefetch": 1}
    claim = await admin.get(VOLUME_CLAIM.path(namespace, "llmkube-model-cache"))
    assert "ownerReferences" not in claim["metadata"]
    # Kubernetes removes finished Jobs after a day; what they brought stays.
    await admin.delete(JOB.path(namespace, "tiny-prefetch") + "?propagationPolicy=Background")
    await recorder.wait_for(JOB, namespace, "tiny-prefetch", lambda item: item is None)
    await admin.patch(MODEL.resource.path(namespace, "tiny"), {"spec": {"quantization": "Q4_K_M"}})
    await until(recorder, namespace, after=2)
    assert recorder.created(JOB) == {"tiny-prefetch": 1}


@pytest.mark.usefixtures("operator")
async def test_another_source_is_prefetched_by_another_job(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    await create(admin, namespace, source="org/repo", prefetch=True)
    await until(recorder, namespace)
    await admin.patch(MODEL.resource.path(namespace, "tiny"), {"spec": {"source": "org/other"}})
    await until(recorder, namespace, after=2)
    assert recorder.created(JOB) == {"tiny-prefetch": 2}
    sources = {pod["spec"]["containers"][0]["args"][1] for pod in _pods(recorder)}
    assert sources == {"org/repo", "org/other"}


def _pods(recorder: Recorder) -> list[Json]:
    return [version.object for version in recorder.log if version.kind == POD.kind]


async def test_a_pod_that_cannot_fetch_says_so_before_its_job_gives_up(
    cluster: Cluster, namespace: str, recorder: Recorder, installed: Path, mcp_servers: McpServers, tmp_path: Path
) -> None:
    policy = '{"fetch_image": "simulate.modelyard.dev/fail"}'
    async with running_operator(installed, mcp_servers.port, tmp_path / "operator.log", POLICY=policy):
        await create(cluster.controlplane.admin, namespace, source="org/repo", prefetch=True)
        found = await recorder.wait_for(
            MODEL.resource, namespace, "tiny", lambda item: condition(item, "WeightsPresent").get("status") == "False"
        )
        assert found
        assert found["status"]["phase"] == "Downloading"


GOOD = (
    "https://example.com/tiny.gguf",
    "HTTP://example.com:8080/a/tiny.gguf?signature=a%2Fb",
    "org/repo",
    "org/repo@v1.0",
    "hf://org/repo",
    "hf://org/repo@refs%2Fpr%2F1/folder/tiny.gguf",
    "https://huggingface.co/org/repo",
    "https://huggingface.co/org/repo/",
    "https://huggingface.co/org/repo/tree/main",
    "https://www.huggingface.co/org/repo/resolve/main/a/tiny.gguf?download=true",
    "s3://bucket/tiny.gguf",
    "S3://bucket/prefix/",
    "pvc://claim/a/tiny.gguf",
    "file:///data/tiny.gguf",
    "/data/tiny.gguf",
)
BAD = (
    ("", "spec.source"),
    ("two words", "spec.source"),
    ("word", "write org/repo"),
    ("org/repo/tiny.gguf", "hf://org/repo/file"),
    ("-org/repo", "neither org/repo"),
    ("org/repo@", "neither org/repo"),
    ("ftp://example.com/tiny.gguf", "use one of file, hf"),
    ("https:example.com/tiny.gguf", "neither org/repo"),
    ("https:///tiny.gguf", "names no host"),
    ("hf://org", "hf://org/repo"),
    ("hf://org/repo/", "hf://org/repo"),
    ("hf://org/repo/../tiny.gguf", "must not hold .."),
    ("https://huggingface.co/datasets/org/name", "holds no model"),
    ("https://huggingface.co/org", "holds no model"),
    ("https://huggingface.co/org/repo/discussions", "holds no model"),
    ("s3://bucket", "s3://bucket/key"),
    ("s3://bucket/", "s3://bucket/key"),
    ("s3://Bucket/key", "s3://bucket/key"),
    ("pvc://claim", "pvc://claim/path"),
    ("pvc:///path", "pvc://claim/path"),
    ("pvc://claim/", "pvc://claim/path"),
    ("file://host/tiny.gguf", "file:///path"),
    ("/data/", "without a slash at the end"),
    ("/data/../etc/passwd", "must not hold .."),
)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("source", GOOD)
async def test_a_good_source_is_accepted(cluster: Cluster, source: str) -> None:
    path = MODEL.resource.path("default") + "?dryRun=All"
    await cluster.controlplane.admin.create(path, model("default", source=source))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("source", "says"), BAD)
async def test_a_bad_source_is_refused_with_the_way_out(cluster: Cluster, source: str, says: str) -> None:
    path = MODEL.resource.path("default") + "?dryRun=All"
    with pytest.raises(RawClientError) as refused:
        await cluster.controlplane.admin.create(path, model("default", source=source))
    assert says in str(refused.value)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("spec.sha256", {"sha256": "abc"}),
        ("spec.refreshPolicy", {"refreshPolicy": "Always"}),
        ("spec.format", {"format": "onnx"}),
        ("spec.prefetchTolerations", {"prefetchTolerations": [{"key": 1}]}),
        ("spec.sourceSecretRef.name", {"sourceSecretRef": {"name": ""}}),
        ("spec.hardware.accelerator", {"hardware": {"accelerator": "tpu"}}),
        ("spec.hardware.memoryBudget", {"hardware": {"memoryBudget": "much"}}),
        ("spec.hardware.memoryFraction", {"hardware": {"memoryFraction": 0}}),
        ("spec.hardware.memoryFraction", {"hardware": {"memoryFraction": 1.01}}),
        ("spec.hardware.gpu.count", {"hardware": {"gpu": {"count": 9}}}),
        ("spec.hardware.gpu.vendor", {"hardware": {"gpu": {"vendor": "other"}}}),
        ("spec.hardware.gpu.layers", {"hardware": {"gpu": {"layers": -2}}}),
        ("spec.hardware.gpu.memory", {"hardware": {"gpu": {"memory": "16 GB"}}}),
        ("spec.hardware.gpu.resourceName", {"hardware": {"gpu": {"resourceName": "gpu"}}}),
        ("spec.hardware.gpu.tolerationKey", {"hardware": {"gpu": {"tolerationKey": "GPU/x"}}}),
        ("spec.hardware.gpu.sharding.strategy", {"hardware": {"gpu": {"sharding": {"strategy": "some"}}}}),
        ("spec.hardware.gpu.sharding.layerSplit", {"hardware": {"gpu": {"sharding": {"layerSplit": ["1"]}}}}),
        ("spec.resources.cpu", {"resources": {"cpu": "lots"}}),
    ],
)
async def test_a_bad_field_is_refused_by_name(cluster: Cluster, field: str, spec: Json) -> None:
    path = MODEL.resource.path("default") + "?dryRun=All"
    with pytest.raises(RawClientError) as refused:
        await cluster.controlplane.admin.create(path, model("default", source="org/repo", **spec))
    assert field in str(refused.value)
