"""Weights that are files of this machine: they may change, and they may go."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.e2e.yards import DATA, NAMED, condition, model, service

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.yards import Yard

MODEL = ("model", "local")


async def test_a_local_file_may_change_or_go_and_what_is_ready_answers(yard: Yard, tmp_path: Path) -> None:
    file = tmp_path / "my models" / "a file.gguf"
    file.parent.mkdir()
    shutil.copyfile(DATA / "yard.gguf", file)
    here = model("local")
    here["spec"]["source"] = str(file)
    await yard.apply(here, service("local"))
    await yard.until_ready("local")
    assert (await yard.answer("local")).startswith(NAMED["yard"])

    shutil.copyfile(DATA / "yard-green.gguf", file)
    await yard.until(lambda body: condition(body, "SourceDrifted").get("status") == "True", *MODEL)
    await restart(yard)
    assert (await yard.answer("local")).startswith(NAMED["yard-green"])

    file.unlink()
    await restart(yard)
    assert (await yard.answer("local")).startswith(NAMED["yard-green"])
    body = await yard.until(lambda body: "from the cache" in condition(body, "WeightsPresent")["message"], *MODEL)
    assert f"{file} cannot be read" in condition(body, "WeightsPresent")["message"]
    await yard.until(lambda body: condition(body, "SourceDrifted").get("reason") == "UpstreamNotFound", *MODEL)
    await yard.kubectl("delete", "inferenceservice/local", "model/local")


async def restart(yard: Yard) -> None:
    """Replace every pod, and wait until the old ones have ended."""
    old = [f"pod/{pod['metadata']['name']}" for pod in await yard.pods("local")]
    await yard.kubectl("rollout", "restart", "deployment/local")
    await yard.kubectl("wait", "--for=delete", "--timeout=120s", *old)
    await yard.until_ready("local")
