"""The verbs for clusters on one machine: a real model answers, and a real crash is explained."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.running import run
from tests.e2e.yards import NAMED, condition, service

if TYPE_CHECKING:
    from tests.e2e.yards import Yard


async def test_a_model_is_asked_at_its_address_on_this_machine(yard: Yard) -> None:
    ran = await run("ask", "yard", "Which model are you?", "-o", "json", kubeconfig=yard.folder.kubeconfig)
    said = json.loads(ran.out)
    assert said["answer"].startswith(NAMED["yard"])
    assert said["figures"]["tokens"] > 1


async def test_a_crash_is_explained_by_the_log_of_what_crashed(yard: Yard) -> None:
    await yard.apply(service("broken", "yard", extraArgs=["--no-such-flag"]))
    await yard.until(lambda body: condition(body).get("reason") == "CrashLoop", "inferenceservice", "broken")
    ran = await run("explain", "isvc/broken", "-o", "json", kubeconfig=yard.folder.kubeconfig)
    told = json.loads(ran.out)
    assert any("no-such-flag" in line for log in told["logs"] for line in log["lines"])
    assert told["next"][0].startswith("kubectl logs --previous --all-containers broken-")
    await yard.kubectl("delete", "inferenceservice", "broken")
