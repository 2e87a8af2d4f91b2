"""`modelyard doctor` on a real API server, on which the definitions are installed and no operator runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import yaml

from modelyard.kinds import ALL
from modelyard.local.kubeconfig import write_kubeconfig
from tests.cli.running import examples, run
from tests.kube.scripted import serving, text

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_example_of_its_page_prints_what_the_page_says(scene: Path) -> None:
    (example,) = examples("doctor.md")
    ran = await run(*example.words, kubeconfig=scene)
    # Other tests of this process may have left a Lease, nodes, and the definitions of the Gateway API.
    shown, told = [
        [line for line in text.splitlines() if not line.startswith(("leader", "gpus", "gateway api"))]
        for text in (ran.out, example.out)
    ]
    assert (ran.code, shown) == (1, told)


async def test_json_and_yaml_have_a_finding_for_every_definition(scene: Path) -> None:
    found = json.loads((await run("doctor", "-o", "json", kubeconfig=scene)).out)["findings"]
    definitions = [one for one in found if one["check"].startswith("definition ")]
    assert [(one["check"], one["state"]) for one in definitions] == [
        (f"definition {kind.resource.label}", "ok") for kind in ALL
    ]
    as_yaml = yaml.safe_load((await run("doctor", "-o", "yaml", kubeconfig=scene)).out)
    assert [one["check"] for one in as_yaml["findings"]] == [one["check"] for one in found]
    assert "definition models.inference" in (await run("doctor", "-o", "wide", kubeconfig=scene)).out


async def test_a_user_without_rights_is_told_what_is_not_known(stranger: Path, scene: Path) -> None:
    ran = await run("doctor", "-o", "json", kubeconfig=stranger)
    states = {one["check"]: one["state"] for one in json.loads(ran.out)["findings"]}
    assert (states["kubernetes"], states["operator"], states["your rights"]) == ("ok", "unknown", "note")


async def test_a_login_page_in_place_of_an_api_server_is_no_cluster(tmp_path: Path) -> None:
    async with serving(text(b"<html>Log in</html>")) as server:
        ran = await run("doctor", kubeconfig=write_kubeconfig(tmp_path / "config", server.url, b"", {"token": "none"}))
    assert (ran.code, ran.out) == (4, "")
    assert ran.err.startswith("the API server sent something that cannot be read; check the cluster")


async def test_without_a_cluster_there_is_nothing_to_check(elsewhere: Path) -> None:
    assert [(await run("doctor", kubeconfig=one)).code for one in (elsewhere, None)] == [4, 4]
