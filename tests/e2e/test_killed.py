"""kill -9, at any moment, of everything or of any part: nothing is lost, and nothing stays behind for ever."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.local.raw_client import RawClient
from tests.e2e.yards import NAMED, SECONDS, Yard, condition, running_yard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PARTS = {
    "etcd": "/etcd ",
    "kube-apiserver": "/kube-apiserver ",
    "kube-controller-manager": "/kube-controller-manager ",
    "kube-scheduler": "/kube-scheduler ",
    "operator": "modelyard.local.lifeline modelyard run",
    "reaper": "modelyard.local.node.process.reaper_process",
    "engine": "modelyard.local.llama_server",
    "door": "/door/routes.json",
}


async def test_killed_while_it_starts_it_leaves_nothing_and_the_next_start_serves(tmp_path: Path) -> None:
    yard = Yard(tmp_path / "state")
    for words in ("API server: starting", "definitions: starting", "node: starting", "InferenceService yard: Creating"):
        await yard.begin()
        await yard.until_said(words)
        assert await yard.stop(signal.SIGKILL) == -signal.SIGKILL
        await yard.until_nothing_runs()
    async with running_yard(yard.path) as last:
        assert (await last.ask("yard")).startswith(NAMED["yard"])


async def test_killed_while_it_serves_it_leaves_nothing_and_the_next_start_has_lost_nothing(tmp_path: Path) -> None:
    names = ("models,inferenceservices,deployments,services,pods,pvc", "-o", "jsonpath={.items[*].metadata.uid}")
    yard = Yard(tmp_path / "state")
    await yard.start()
    await yard.kubectl("annotate", "inferenceservice", "yard", "written=last")
    uids = await yard.kubectl("get", *names)
    assert await yard.stop(signal.SIGKILL) == -signal.SIGKILL
    await yard.until_nothing_runs()
    await yard.begin()
    await never_ready_without_a_node(yard, "yard")
    await yard.until_settled()
    assert await yard.stop(signal.SIGKILL) == -signal.SIGKILL
    # The next start need not wait for what a killed one has left.
    async with running_yard(yard.path) as again:
        assert await again.kubectl("get", *names) == uids
        note = "jsonpath={.metadata.annotations.written}"
        assert await again.kubectl("get", "inferenceservice", "yard", "-o", note) == "last"
        assert (await again.ask("yard")).startswith(NAMED["yard"])


async def never_ready_without_a_node(yard: Yard, name: str) -> None:
    """Ask again and again how a service is, until the node runs: before, its processes cannot."""
    admin, asked = RawClient(yard.folder.kubeconfig), 0
    await yard.until_said("definitions: ready")
    try:
        while True:
            body = await admin.get(INFERENCE_SERVICE.resource.path("default", name))
            # What the screen says of a node that runs.
            if "GiB of memory" in yard.output.read_text():
                break
            asked += 1
            assert condition(body)["status"] == "False", "it is Ready, and its address refuses"
    finally:
        await admin.close()
    assert asked


async def test_what_served_before_does_not_count_while_the_controllers_have_not_seen_this_start(
    assets: Path, tmp_path: Path
) -> None:
    yard = Yard(tmp_path / "state")
    await yard.start()
    assert await yard.stop(signal.SIGKILL) == -signal.SIGKILL
    await yard.until_nothing_runs()
    await yard.begin(KUBEBUILDER_ASSETS=str(held_up(assets, tmp_path / "programs", "kube-controller-manager")))
    try:
        await yard.until_said("operator: ready")
        name = (await yard.pods("yard"))[0]["metadata"]["name"]
        await yard.until(lambda body: condition(body)["status"] == "True", "pod", name)
        await asyncio.sleep(1)
        assert "curl" not in yard.output.read_text()
        controllers = pid_of(yard, "kube-controller-manager")
        assert controllers, "a signal to process 0 would be one to ourselves"
        os.kill(controllers, signal.SIGCONT)
        await yard.until_settled()
        assert (await yard.ask("yard")).startswith(NAMED["yard"])
    finally:
        assert await yard.stop() == 0


def held_up(assets: Path, folder: Path, program: str) -> Path:
    """Return the programs with one that does nothing until it is told to go on."""
    folder.mkdir()
    for each in assets.iterdir():
        (folder / each.name).symlink_to(each)
    (folder / program).unlink()
    (folder / program).write_text(f'#!/bin/sh\nkill -STOP $$\nexec {assets / program} "$@"\n')
    (folder / program).chmod(0o700)
    return folder


@pytest.fixture(scope="module")
async def robust(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    async with running_yard(tmp_path_factory.mktemp("robust") / "state") as yard:
        yield yard


@pytest.mark.parametrize("part", PARTS)
async def test_a_part_that_is_killed_is_started_again_and_the_service_answers(robust: Yard, part: str) -> None:
    before = pid_of(robust, part)
    assert before, "signal 9 to process 0 would end ourselves"
    os.kill(before, signal.SIGKILL)
    async with asyncio.timeout(SECONDS):
        while pid_of(robust, part) in (0, before):
            await asyncio.sleep(0.05)
    assert (await robust.answer("yard")).startswith(NAMED["yard"])
    assert (await robust.answer_at_door("yard")).startswith(NAMED["yard"])
    await robust.kubectl("scale", "inferenceservice/yard", "--replicas=0")
    await robust.until(lambda body: body["status"]["phase"] == "Stopped", "inferenceservice", "yard")
    await robust.kubectl("scale", "inferenceservice/yard", "--replicas=1")
    await robust.until_ready("yard")
    assert (await robust.answer("yard")).startswith(NAMED["yard"])


def pid_of(yard: Yard, part: str) -> int:
    """Return the process of a part; 0 while there is none."""
    return next((pid for pid, words in yard.processes().items() if PARTS[part] in words), 0)
