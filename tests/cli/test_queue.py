"""`modelyard queue` on a real API server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import yaml

from tests.cli.running import examples, run

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_example_of_its_page_prints_what_the_page_says(scene: Path) -> None:
    (example,) = examples("queue.md")
    ran = await run(*example.words, kubeconfig=scene)
    shown, told = ran.out.splitlines(), example.out.splitlines()
    # Pods of other tests may hold GPUs, too.
    assert (ran.code, [line.partition(",")[0] for line in shown]) == (0, told)


async def test_json_yaml_and_wide_have_the_gpus_of_the_cluster_too(scene: Path) -> None:
    found = json.loads((await run("queue", "-n", "team", "-o", "json", kubeconfig=scene)).out)
    assert [(one["name"], one["gpus"]) for one in found["waiting"]] == [("large", 8)]
    assert "chat" in [holder["name"] for holder in found["waiting"][0]["heldBy"]]
    (supply,) = [one for one in found["supplies"] if one["resource"] == "nvidia.com/gpu"]
    assert supply["capacity"] >= 64
    assert supply["held"] >= 2
    as_yaml = yaml.safe_load((await run("queue", "-n", "team", "-o", "yaml", kubeconfig=scene)).out)
    assert as_yaml["waiting"][0]["name"] == "large"
    assert "RESOURCE " in (await run("queue", "-o", "wide", kubeconfig=scene)).out


async def test_what_is_missing_is_said_with_its_exit_code(scene: Path, stranger: Path, elsewhere: Path) -> None:
    assert await run("queue", "-n", "kube-public", kubeconfig=scene) == (0, "", "nothing waits for GPUs\n")
    unreachable, forbidden = [await run("queue", kubeconfig=one) for one in (elsewhere, stranger)]
    assert (unreachable.code, forbidden.code) == (4, 5)
    assert forbidden.err.endswith("you may not list pods; ask an administrator of the cluster for this right\n")
