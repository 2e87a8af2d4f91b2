"""Whatever is killed at whatever moment: nothing is lost, and no process stays behind."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from modelyard.local.node.process.procfs import pids_with
from modelyard.local.node.process.reaper import mark
from modelyard.local.node.process.reaper_process import _ReaperProcess
from tests.local.node.yard import Yard, is_ready, runs, shell, state, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.local.cluster import Cluster

ROOT = Path(__file__).parents[4]


@pytest.fixture
async def yard(cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[Yard]:
    """A yard without a node: the tests start and kill it."""
    name = f"node-{uuid4().hex[:8]}"
    yield Yard(cluster.controlplane.admin, namespace, name, tmp_path / "state")
    await cluster.controlplane.admin.delete(f"/api/v1/nodes/{name}")


@asynccontextmanager
async def _node(cluster: Cluster, yard: Yard) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a node in a process of its own."""
    words = ("-m", "tests.local.node.node_process", str(cluster.kubeconfig), str(yard.state), yard.node)
    process = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=ROOT)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await process.wait()


async def _all_ended(yard: Yard) -> None:
    async with asyncio.timeout(60):
        while list(pids_with(mark(yard.state))):
            await asyncio.sleep(0.02)


def _is_back(pod: dict[str, Any]) -> bool:
    return is_ready(pod) and bool(pod["status"]["containerStatuses"][0]["lastState"])


def _restarts(pod: dict[str, Any]) -> int:
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


async def test_nothing_runs_on_after_a_node_was_killed(cluster: Cluster, yard: Yard) -> None:
    async with _node(cluster, yard) as node:
        # One process with a child, one with a child in a session of its own, which no group reaches.
        await yard.start(shell("sleep 600 & exec sleep 600"), shell("setsid sleep 600 & exec sleep 600"))
        async with asyncio.timeout(60):
            while len(list(pids_with(mark(yard.state)))) < 4:
                await asyncio.sleep(0.02)
        node.kill()
        await node.wait()
        await _all_ended(yard)


async def test_the_next_node_goes_on_with_the_pods_of_a_killed_one(cluster: Cluster, yard: Yard) -> None:
    init = {"name": "init", **shell("echo once >> /v/inits", volumeMounts=[{"name": "v", "mountPath": "/v"}])}
    async with _node(cluster, yard) as node:
        created = await yard.start(
            shell("exec sleep 600"), initContainers=[init], volumes=[{"name": "v", "emptyDir": {}}]
        )
        await yard.ready()
        node.kill()
    async with _node(cluster, yard):
        pod = await yard.until(
            lambda seen: is_ready(seen) and bool(seen["status"]["containerStatuses"][0]["lastState"])
        )
        assert pod["metadata"]["uid"] == created["metadata"]["uid"]
        last = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
        assert (last["exitCode"], last["reason"], _restarts(pod)) == (137, "NodeStopped", 0)
        assert (yard.folder(created) / "volumes" / "v" / "inits").read_text() == "once\n"


async def test_a_pod_that_is_never_restarted_has_failed_when_its_node_was_killed(cluster: Cluster, yard: Yard) -> None:
    async with _node(cluster, yard) as node:
        await yard.start(shell("exec sleep 600"), restartPolicy="Never")
        await yard.ready()
        node.kill()
    async with _node(cluster, yard):
        pod = await yard.over()
        assert pod["status"]["phase"] == "Failed"
        assert state(pod)["terminated"]["reason"] == "NodeStopped"


async def test_a_pod_that_is_over_stays_over(cluster: Cluster, yard: Yard) -> None:
    async with _node(cluster, yard) as node:
        await yard.start(shell("echo once"), restartPolicy="Never")
        before = await yard.over()
        node.kill()
    async with _node(cluster, yard):
        await yard.start(shell("exec sleep 600"), name="other")
        await yard.ready("other")
        after = await yard.admin.get(f"{yard.path}/pods/pod")
        assert after["status"] == before["status"]
        assert yard.log(before) == "once\n"
        await yard.delete()
        await yard.gone()


async def test_a_pod_deleted_while_there_was_no_node_is_gone_with_the_next(cluster: Cluster, yard: Yard) -> None:
    async with _node(cluster, yard) as node:
        created = await yard.start(shell("exec sleep 600"))
        await yard.ready()
        node.kill()
        await node.wait()
    await yard.delete()
    async with _node(cluster, yard):
        await yard.gone()
        async with asyncio.timeout(60):
            while yard.folder(created).exists():
                await asyncio.sleep(0.02)


async def test_a_reaper_process_that_was_killed_is_replaced(cluster: Cluster, yard: Yard) -> None:
    async with _node(cluster, yard) as node:
        await yard.start(shell("exec sleep 600"))
        await yard.ready()
        first = await _reaper_of(node.pid, other_than=0)
        os.kill(first, signal.SIGKILL)
        await _reaper_of(node.pid, other_than=first)
        node.kill()
        await _all_ended(yard)


class _Scarce(_ReaperProcess):
    """A reaper process that cannot be replaced at the first try, because no descriptor is free."""

    was_refused = False

    async def start(self) -> None:
        if self._process is not None and not self.was_refused:
            self.was_refused = True
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        await super().start()


async def test_a_reaper_process_that_cannot_be_replaced_at_once_is_tried_again(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("wb") as lock:
        reaper = _Scarce(tmp_path, lock.fileno())
        await reaper.start()
        first = reaper._process
        assert first
        respawning = asyncio.create_task(reaper.respawn())
        first.kill()
        async with asyncio.timeout(60):
            while reaper._process is first:
                await asyncio.sleep(0.01)
                assert not respawning.done()
        assert reaper.was_refused
        respawning.cancel()
        await asyncio.wait([respawning])
        await reaper.finish()


async def test_what_a_killed_node_and_reaper_left_is_ended_by_the_next(cluster: Cluster, yard: Yard) -> None:
    async with _node(cluster, yard) as node:
        await yard.start(shell("echo $$$$; exec sleep 600"))
        await yard.ready()
        left = list(pids_with(mark(yard.state)))
        os.kill(await _reaper_of(node.pid, other_than=0), signal.SIGKILL)
        node.kill()
    assert left
    async with _node(cluster, yard):
        await yard.until(_is_back)
        assert not any(map(runs, left))


async def test_a_node_that_is_stopped_ends_its_processes_and_keeps_its_pods(cluster: Cluster, yard: Yard) -> None:
    async with _node(cluster, yard):
        await yard.start(shell("exec sleep 600"))
        before = await yard.ready()
    assert list(pids_with(mark(yard.state))) == []
    after = await yard.admin.get(f"{yard.path}/pods/pod")
    assert (after["metadata"]["uid"], after["status"]) == (before["metadata"]["uid"], before["status"])


async def test_a_killed_api_server_changes_nothing_for_running_pods(cluster: Cluster, yard: Yard) -> None:
    async with _node(cluster, yard):
        created = await yard.start(shell("exec sleep 600"))
        await yard.ready()
        pids = list(pids_with(mark(yard.state)))
        await cluster.controlplane.kill_apiserver()
        await cluster.controlplane.restart_apiserver()
        assert list(pids_with(mark(yard.state))) == pids
        await yard.delete()
        await yard.gone()
        await until(yard.admin, f"{yard.path}/pods", lambda seen: not seen["items"])
        assert created["metadata"]["uid"]


async def _reaper_of(node: int, other_than: int) -> int:
    """Return the reaper process of a node, once there is another one than this."""
    async with asyncio.timeout(60):
        while True:
            for child in Path(f"/proc/{node}/task/{node}/children").read_text().split():
                with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                    words = Path(f"/proc/{child}/cmdline").read_bytes()
                    if b"modelyard.local.node.process.reaper_process" in words and int(child) != other_than:
                        return int(child)
            await asyncio.sleep(0.02)
