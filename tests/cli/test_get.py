"""`modelyard get` on a real API server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cli.running import PAGES, examples, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.running import Example


@pytest.mark.parametrize("example", examples("get.md"), ids=lambda example: " ".join(example.words))
async def test_the_examples_of_its_page_print_what_the_page_says(scene: Path, example: Example) -> None:
    ran = await run(*example.words, kubeconfig=scene)
    assert (ran.code, ran.out) == (0, example.out)


async def test_json_and_yaml_say_the_same_of_every_object(scene: Path) -> None:
    found = json.loads((await run("get", "-n", "team", "-o", "json", kubeconfig=scene)).out)
    assert [(item["kind"], item["name"], item["ready"]) for item in found["items"]] == [
        ("Agent", "calendar", False),
        ("InferenceHost", "studio", False),
        ("InferenceService", "chat", True),
        ("InferenceService", "large", False),
        ("MCP", "tools", False),
        ("Model", "tiny", True),
        ("ModelDeployment", "mail", False),
    ]
    assert yaml.safe_load((await run("get", "-n", "team", "-o", "yaml", kubeconfig=scene)).out) == found


async def test_wide_adds_the_age_and_the_message(scene: Path) -> None:
    title, line = (await run("get", "mcp", "-n", "team", "-o", "wide", kubeconfig=scene)).out.splitlines()
    assert title.split()[-2:] == ["AGE", "MESSAGE"]
    assert "container tools keeps exiting (exit code 1): no such table" in line


async def test_labels_and_names_choose_objects(scene: Path) -> None:
    by_label = await run("get", "-A", "-l", "tier=shop", kubeconfig=scene)
    assert [line.split()[:3] for line in by_label.out.splitlines()[1:]] == [
        ["InferenceService", "team", "chat"],
        ["Model", "team", "tiny"],
    ]
    by_name = await run("get", "isvc", "large", "chat", "-n", "team", kubeconfig=scene)
    assert [line.split()[1] for line in by_name.out.splitlines()[1:]] == ["chat", "large"]


async def test_what_is_not_there_is_said(scene: Path) -> None:
    nothing = await run("get", "models", "-n", "kube-public", kubeconfig=scene)
    assert nothing == (0, "", "nothing found; `modelyard get -A` looks at all namespaces\n")
    no_name = await run("get", "model/none", "-n", "team", kubeconfig=scene)
    assert no_name.code == 3
    assert no_name.err.startswith("there is no Model none in the namespace team; `modelyard get models -A`")


async def test_a_cluster_without_our_definitions_is_told_to_install_them(undefined: Path) -> None:
    for words in (("get",), ("get", "model/tiny")):
        ran = await run(*words, kubeconfig=undefined)
        assert (ran.code, ran.out) == (6, "")
        assert "models.inference.llmkube.dev" in ran.err
        assert ran.err.endswith("install Modelyard with `modelyard install`\n")


async def test_a_user_without_rights_is_told_which_one_is_missing(scene: Path, stranger: Path) -> None:
    ran = await run("get", "models", kubeconfig=stranger)
    assert (ran.code, ran.out) == (5, "")
    assert ran.err == (
        "you may not list models.inference.llmkube.dev; ask an administrator of the cluster for this right\n"
    )


async def test_without_a_cluster_the_user_is_told_how_to_name_one(elsewhere: Path) -> None:
    unreachable = await run("get", kubeconfig=elsewhere)
    assert unreachable.code == 4
    assert "the API server cannot be reached" in unreachable.err
    unnamed = await run("get", kubeconfig=None)
    assert unnamed.code == 4
    assert unnamed.err.endswith("name a kubeconfig with --kubeconfig, or set KUBECONFIG\n")


async def test_a_context_and_a_kubeconfig_are_named_as_for_kubectl(scene: Path) -> None:
    flags = ("--kubeconfig", str(scene), "-n", "team", "get", "model/tiny")
    ran = await run("get", *flags[:4], "model/tiny", "--context", "modelyard", kubeconfig=None)
    assert ran.code == 0
    wrong = await run("get", *flags[:2], "--context", "none", kubeconfig=None)
    assert wrong.code == 4
    assert "there is none named 'none' (there is modelyard); choose one with --context, or" in wrong.err


def test_its_page_is_listed() -> None:
    assert "(get.md)" in (PAGES / "overview.md").read_text()
