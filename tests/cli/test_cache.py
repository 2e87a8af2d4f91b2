"""`modelyard cache` on a real API server; tests/e2e looks into real volumes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import yaml

from tests.cli.running import examples, run

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_example_of_its_page_prints_what_the_page_says(scene: Path) -> None:
    (example,) = examples("cache.md")
    ran = await run(*example.words, kubeconfig=scene)
    assert (ran.code, ran.out) == (0, example.out)
    assert ran.err.startswith("only what objects say is shown")


async def test_json_yaml_and_wide_have_the_key(scene: Path) -> None:
    found = json.loads((await run("cache", "-n", "team", "-o", "json", kubeconfig=scene)).out)
    assert [(one["claim"], one["size"], one["usedBy"]) for one in found["weights"]] == [
        ("llmkube-model-cache", 4300800, ["Model tiny"])
    ]
    assert yaml.safe_load((await run("cache", "-n", "team", "-o", "yaml", kubeconfig=scene)).out) == found
    assert found["weights"][0]["key"] in (await run("cache", "-A", "-o", "wide", kubeconfig=scene)).out


async def test_what_is_missing_is_said_with_its_exit_code(scene: Path, stranger: Path, elsewhere: Path) -> None:
    nothing = await run("cache", "-n", "kube-public", kubeconfig=scene)
    assert (nothing.code, nothing.out) == (0, "")
    assert nothing.err.startswith("no claim caches weights here")
    unused = await run("cache", "rm", "-n", "kube-public", kubeconfig=scene)
    assert unused.code == 3
    unreachable, forbidden = [await run("cache", kubeconfig=one) for one in (elsewhere, stranger)]
    assert (unreachable.code, forbidden.code) == (4, 5)
    assert "you may not list persistentvolumeclaims" in forbidden.err
