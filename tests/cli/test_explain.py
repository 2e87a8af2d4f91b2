"""`modelyard explain` on a real API server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cli.running import examples, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.running import Example


@pytest.mark.parametrize("example", examples("explain.md"), ids=lambda example: " ".join(example.words))
async def test_the_examples_of_its_page_print_what_the_page_says(scene: Path, example: Example) -> None:
    ran = await run(*example.words, kubeconfig=scene)
    assert (ran.code, ran.out) == (0, example.out)


async def test_json_and_yaml_have_the_causes_and_the_next_commands(scene: Path) -> None:
    told = json.loads((await run("explain", "isvc/large", "-n", "team", "-o", "json", kubeconfig=scene)).out)
    assert told["object"]["reason"] == "WaitingForGPU"
    assert told["causes"] == [
        {
            "about": "Pod large-0",
            "reason": "Unschedulable",
            "message": "no node can run a pod: Insufficient nvidia.com/gpu; "
            "free or add capacity, or lower spec.resources.requests",
        }
    ]
    assert told["next"][0] == "modelyard queue"
    as_yaml = await run("explain", "isvc/large", "-n", "team", "-o", "yaml", kubeconfig=scene)
    assert yaml.safe_load(as_yaml.out) == told


async def test_wide_shows_all_conditions(scene: Path) -> None:
    ran = await run("explain", "isvc/large", "-n", "team", "-o", "wide", kubeconfig=scene)
    assert "GPUAvailable   False    InsufficientGPU" in ran.out


async def test_events_and_logs_of_what_failed_are_read(scene: Path) -> None:
    told = json.loads((await run("explain", "mcp/tools", "-n", "team", "-o", "json", kubeconfig=scene)).out)
    assert [(log["pod"], log["container"]) for log in told["logs"]] == [("tools-0", "tools")]
    assert [event["reason"] for event in told["events"]] == ["BackOff"]


async def test_the_next_commands_lead_to_the_cluster_that_was_named(scene: Path) -> None:
    words = ("explain", "isvc/large", "-n", "team", "--kubeconfig", str(scene), "--context", "modelyard", "-o", "json")
    told = json.loads((await run(*words, kubeconfig=None)).out)
    assert told["next"][0] == f"modelyard queue --kubeconfig={scene} --context=modelyard"


async def test_what_a_user_may_not_read_is_not_called_missing(scene: Path, reader: Path) -> None:
    told = json.loads((await run("explain", "isvc/large", "-n", "team", "-o", "json", kubeconfig=reader)).out)
    assert told["causes"] == []
    right = "you may not get models.inference.llmkube.dev; ask an administrator of the cluster for this right"
    assert right in told["unread"]
    wait = "kubectl wait --for=condition=Ready inferenceservices.inference.llmkube.dev large -n team --timeout=30m"
    assert told["next"] == ["modelyard queue", wait]


async def test_what_is_missing_is_said_with_its_exit_code(
    scene: Path, undefined: Path, stranger: Path, elsewhere: Path
) -> None:
    words = ("explain", "model/none", "-n", "team")
    codes = [(await run(*words, kubeconfig=one)).code for one in (scene, elsewhere, stranger, undefined)]
    assert codes == [3, 4, 5, 6]
    wrong = await run("explain", "tiny", kubeconfig=scene)
    assert (wrong.code, wrong.err) == (1, "'tiny' is not KIND/NAME, such as model/tiny\n")
