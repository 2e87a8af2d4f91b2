"""`modelyard plan --live` on a real API server, on which an operator has made children."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, SERVICE
from modelyard.kinds.mcp import MCP
from tests.cli.conftest import until_account
from tests.cli.running import PAGES, examples, run
from tests.conftest import watched_resources
from tests.support.mcps import mcp
from tests.support.operators import running_operator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.mcpserver import McpServers

Json = dict[str, Any]

SHOP = "shop"
SECRET = "hunter2"
SCALED = mcp(
    SHOP,
    "scaled",
    hpa={"enabled": True, "config": {"minReplicas": 1, "maxReplicas": 3}},
    env=[{"name": "KEY", "value": SECRET}],
)


@pytest.fixture(scope="module")
async def shop(
    cluster: Cluster, installed: Path, mcp_servers: McpServers, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Path]:
    """The kubeconfig of an administrator of a cluster where the operator has served a namespace, and has stopped."""
    admin, folder = cluster.controlplane.admin, tmp_path_factory.mktemp("shop")
    await admin.ensure("/api/v1/namespaces", {"metadata": {"name": SHOP}})
    await until_account(admin, SHOP)
    made = (mcp(SHOP), SCALED)
    for body in made:
        await admin.create(MCP.resource.path(SHOP), body)
    async with running_operator(installed, mcp_servers.port, folder / "operator.log"):
        for path in (SERVICE.path(SHOP, "tools-service"), AUTOSCALER.path(SHOP, "scaled")):
            await until_there(admin, path)
    yield cluster.kubeconfig
    for resource in (MCP.resource, DEPLOYMENT, SERVICE, AUTOSCALER):
        await admin.delete(resource.path(SHOP))


async def until_there(admin: RawClient, path: str) -> None:
    async with asyncio.timeout(60):
        while not await admin.answers(path):
            await asyncio.sleep(0.05)


async def plan(kubeconfig: Path, tmp_path: Path, *bodies: Json, output: str = "json") -> tuple[int, Any, str]:
    """Return the exit code, what was printed, decoded, and the remarks."""
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(bodies))
    ran = await run("plan", "-f", str(file), "--live", "-o", output, kubeconfig=kubeconfig)
    return ran.code, yaml.safe_load(ran.out) if ran.out else None, ran.err


async def test_the_example_of_its_page_prints_what_the_page_says(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (PAGES / "plan.md").read_text()
    (tmp_path / "tools.yaml").write_text(text.partition("```yaml\n")[2].partition("```")[0])
    (example,) = examples("plan.md")
    ran = await run(*example.words, kubeconfig=shop)
    assert (ran.code, ran.out) == (2, example.out)


async def test_what_is_served_as_the_file_says_would_not_change_and_nothing_is_written(
    cluster: Cluster, shop: Path, tmp_path: Path
) -> None:
    before = await everything(cluster)
    code, found, err = await plan(shop, tmp_path, mcp(SHOP), SCALED)
    assert (code, found) == (0, {"changes": [], "problems": []})
    assert err.endswith("nothing would change\n")
    await plan(shop, tmp_path, mcp(SHOP, image="example.com/tools:9"), mcp(SHOP, "new"))
    assert await everything(cluster) == before


async def everything(cluster: Cluster) -> set[tuple[str, str]]:
    """Return every object that our kinds cause, each at its version. What Kubernetes writes to moves by itself."""
    moving = {"pods", "deployments", "horizontalpodautoscalers", "endpointslices"}
    lists = [
        await cluster.controlplane.admin.get(resource.path(SHOP))
        for resource in watched_resources()
        if resource.plural not in moving
    ]
    metas = [item["metadata"] for found in lists for item in found["items"]]
    return {(meta["uid"], meta["resourceVersion"]) for meta in metas}


async def test_what_is_dropped_is_removed_or_deleted_and_no_value_is_shown(shop: Path, tmp_path: Path) -> None:
    code, found, _ = await plan(shop, tmp_path, mcp(SHOP, "scaled"))
    assert code == 2
    actions = {(each["kind"], each["action"]): each.get("fields") for each in found["changes"]}
    assert actions["HorizontalPodAutoscaler", "delete"] is None
    assert "spec.template.spec.containers[mcp].env[KEY]" in actions["Deployment", "restart"]
    assert SECRET not in json.dumps(found)


async def test_a_new_object_is_created_with_its_children(shop: Path, tmp_path: Path) -> None:
    code, found, _ = await plan(shop, tmp_path, mcp(SHOP, "new"), output="yaml")
    assert code == 2
    assert [(each["kind"], each["name"], each["action"]) for each in found["changes"]] == [
        ("MCP", "new", "create"),
        ("Deployment", "new", "create"),
        ("Service", "new-service", "create"),
    ]


async def test_a_name_that_is_taken_stands_in_the_way(cluster: Cluster, shop: Path, tmp_path: Path) -> None:
    taken = {"metadata": {"name": "taken-service"}, "spec": {"ports": [{"port": 80}]}}
    await cluster.controlplane.admin.create(SERVICE.path(SHOP), taken)
    code, found, err = await plan(shop, tmp_path, mcp(SHOP, "taken"))
    assert code == 1
    assert [each["reason"] for each in found["problems"]] == ["NameConflict"]
    assert "MCP taken: NameConflict: Service taken-service already exists" in err


async def test_a_file_that_is_wrong_is_refused(shop: Path, tmp_path: Path) -> None:
    assert (await plan(shop, tmp_path, mcp(SHOP, imag="x")))[2].endswith(
        "MCP tools: spec.imag is not a field; did you mean image?\n"
    )
    assert "spec.replicas" in (await plan(shop, tmp_path, mcp(SHOP, replicas="many")))[2]


async def test_what_is_missing_is_said_with_its_exit_code(
    shop: Path, tmp_path: Path, undefined: Path, stranger: Path, elsewhere: Path
) -> None:
    codes = [(await plan(one, tmp_path, mcp(SHOP)))[0] for one in (elsewhere, stranger, undefined)]
    assert codes == [4, 5, 6]


async def test_flags_of_a_cluster_need_live(shop: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(yaml.safe_dump(mcp(SHOP)))
    ran = await run("plan", "-f", str(file), "-n", SHOP, kubeconfig=shop)
    assert (ran.code, ran.out) == (2, "")
    assert "need --live" in ran.err
