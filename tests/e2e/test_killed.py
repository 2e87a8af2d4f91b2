"""kill -9, at any moment, of everything or of any part: nothing is lost, and nothing stays behind for ever."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.local.raw_client import RawClient, RawClientError
from tests.e2e.yards import NAMED, Json, Yard, condition, in_time, running_yard

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


@pytest.fixture(scope="module")
async def robust(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    """A machine that serves, after four starts that were killed, each at another moment."""
    yard = Yard(tmp_path_factory.mktemp("robust") / "state")
    for words in ("API server: starting", "definitions: starting", "node: starting", "InferenceService yard: Creating"):
        await yard.begin()
        await yard.until_said(words)
        assert await yard.stop(signal.SIGKILL) == -signal.SIGKILL
        await yard.until_nothing_runs()
    async with running_yard(yard.path) as last:
        yield last


async def test_killed_while_it_starts_it_leaves_nothing_and_the_next_start_serves(robust: Yard) -> None:
    assert (await robust.ask("yard")).startswith(NAMED["yard"])


@pytest.mark.parametrize("part", PARTS)
async def test_a_part_that_is_killed_is_started_again_and_the_service_answers(robust: Yard, part: str) -> None:
    before = pid_of(robust, part)
    assert before, "signal 9 to process 0 would end ourselves"
    os.kill(before, signal.SIGKILL)
    async with in_time(lambda: f"{part} is not started again; {robust.output.read_text()}"):
        while pid_of(robust, part) in (0, before):
            await asyncio.sleep(0.2)
    assert (await robust.answer("yard")).startswith(NAMED["yard"])
    assert (await robust.answer_at_door("yard")).startswith(NAMED["yard"])
    await robust.kubectl("scale", "inferenceservice/yard", "--replicas=0")
    await robust.until(lambda body: body["status"]["phase"] == "Stopped", "inferenceservice", "yard")
    await robust.kubectl("scale", "inferenceservice/yard", "--replicas=1")
    await robust.until_ready("yard")
    assert (await robust.answer("yard")).startswith(NAMED["yard"])


async def test_killed_while_it_serves_it_leaves_nothing_and_the_next_start_has_lost_nothing(robust: Yard) -> None:
    names = ("models,inferenceservices,deployments,services,pods,pvc", "-o", "jsonpath={.items[*].metadata.uid}")
    await until_one_pod(robust, "yard")
    await robust.kubectl("annotate", "inferenceservice", "yard", "written=last")
    uids = await robust.kubectl("get", *names)
    assert await robust.stop(signal.SIGKILL) == -signal.SIGKILL
    await robust.until_nothing_runs()
    await robust.begin()
    await never_ready_without_a_node(robust, "yard")
    await robust.until_settled()
    assert await robust.kubectl("get", *names) == uids
    note = "jsonpath={.metadata.annotations.written}"
    assert await robust.kubectl("get", "inferenceservice", "yard", "-o", note) == "last"
    assert (await robust.ask("yard")).startswith(NAMED["yard"])


async def until_one_pod(yard: Yard, name: str) -> None:
    """Wait until the pods of earlier tests have ended."""
    found: list[str] = []
    async with in_time(lambda: f"there are {found}"):
        while len(found := [pod["metadata"]["name"] for pod in await yard.pods(name)]) != 1:
            await asyncio.sleep(0.2)


async def never_ready_without_a_node(yard: Yard, name: str) -> None:
    """Ask again and again how a service is, until the node runs: before, its processes cannot."""
    admin, asked = RawClient(yard.folder.kubeconfig), 0
    await yard.until_said("definitions: ready")
    try:
        while True:
            body: Json = {}
            with suppress(RawClientError):  # a server that starts may refuse, for a moment more
                body = await admin.get(INFERENCE_SERVICE.resource.path("default", name))
            # What the screen says of a node that runs.
            if "GiB of memory" in yard.output.read_text():
                break
            if body:
                asked += 1
                assert condition(body)["status"] == "False", "it is Ready, and its address refuses"
    finally:
        await admin.close()
    assert asked


async def test_what_served_before_does_not_count_while_the_controllers_have_not_seen_this_start(
    robust: Yard, assets: Path, tmp_path: Path
) -> None:
    assert await robust.stop(signal.SIGKILL) == -signal.SIGKILL
    # The next start need not wait for what a killed one has left.
    await robust.begin(KUBEBUILDER_ASSETS=str(held_up(assets, tmp_path / "programs", "kube-controller-manager")))
    await robust.until_said("operator: ready")
    name = (await robust.pods("yard"))[0]["metadata"]["name"]
    await robust.until(lambda body: condition(body)["status"] == "True", "pod", name)
    await asyncio.sleep(1)
    assert "curl" not in robust.output.read_text()
    controllers = pid_of(robust, "kube-controller-manager")
    assert controllers, "a signal to process 0 would be one to ourselves"
    os.kill(controllers, signal.SIGCONT)
    await robust.until_settled()
    assert (await robust.ask("yard")).startswith(NAMED["yard"])


def held_up(assets: Path, folder: Path, program: str) -> Path:
    """Return the programs with one that does nothing until it is told to go on."""
    folder.mkdir()
    for each in assets.iterdir():
        (folder / each.name).symlink_to(each)
    (folder / program).unlink()
    (folder / program).write_text(f'#!/bin/sh\nkill -STOP $$\nexec {assets / program} "$@"\n')
    (folder / program).chmod(0o700)
    return folder


def pid_of(yard: Yard, part: str) -> int:
    """Return the process of a part; 0 while there is none."""
    return next((pid for pid, words in yard.processes().items() if PARTS[part] in words), 0)
