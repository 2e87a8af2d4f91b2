"""Containers that end, hang or use too much memory are restarted, and their pods say so."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiohttp

from modelyard.local.node.pods.pod_events import PodWarning, PodWarnings
from tests.local.node.yard import SECONDS, Yard, is_ready, shell, terminated, waiting, yard_of

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.local.cluster import Cluster

Json = dict[str, Any]


def _status(pod: Json) -> Json:
    found: Json = pod["status"].get("containerStatuses", [{}])[0]
    return found


async def test_a_container_that_keeps_ending_is_in_a_crash_loop(yard: Yard) -> None:
    await yard.start(shell("echo run; exit 3"))
    pod = await yard.until(lambda seen: _status(seen).get("restartCount", 0) >= 1 and bool(waiting(seen)))
    assert waiting(pod)["reason"] == "CrashLoopBackOff"
    assert _status(pod)["lastState"]["terminated"]["exitCode"] == 3
    assert pod["status"]["phase"] == "Running"
    assert not is_ready(pod)
    assert yard.log(pod, file="log.previous") == "run\n"


async def test_a_container_that_succeeds_is_not_restarted_on_failure_only(yard: Yard) -> None:
    volumes, mounts = [{"name": "v", "emptyDir": {}}], [{"name": "v", "mountPath": "/v"}]
    script = "test -e /v/second && exit 0; touch /v/second; exit 1"
    await yard.start(shell(script, volumeMounts=mounts), volumes=volumes, restartPolicy="OnFailure")
    pod = await yard.over()
    assert (pod["status"]["phase"], _status(pod)["restartCount"]) == ("Succeeded", 1)


async def test_a_server_that_crashes_is_back_soon_and_the_crash_is_shown(yard: Yard) -> None:
    probe = {"httpGet": {"path": "/health", "port": 18080}}
    await yard.start({"image": "test/server", "args": ["--port=18080"], "readinessProbe": probe})
    pod = await yard.ready()
    async with aiohttp.ClientSession() as session:
        with suppress(aiohttp.ClientError):
            await session.get(f"http://{_address(pod)}:18080/crash")
    pod = await yard.until(lambda seen: _status(seen)["restartCount"] == 1 and is_ready(seen))
    ended = _status(pod)["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (7, "Error")


async def test_a_container_that_is_not_alive_is_restarted(yard: Yard) -> None:
    probe = {"httpGet": {"path": "/health", "port": 18080}, "periodSeconds": 1, "timeoutSeconds": 30}
    # However long it takes to start, that is no failure.
    probes = {"startupProbe": {**probe, "failureThreshold": 60}, "livenessProbe": {**probe, "failureThreshold": 1}}
    await yard.start({"image": "test/server", "args": ["--port", "18080"], **probes})
    pod = await yard.ready()
    async with aiohttp.ClientSession() as session:
        await session.get(f"http://{_address(pod)}:18080/fail")
    pod = await yard.until(lambda seen: _status(seen)["restartCount"] == 1 and is_ready(seen))
    assert _status(pod)["lastState"]["terminated"]["message"] == "the liveness probe failed: HTTP 500"
    assert await _events(yard) == {("Warning", "Unhealthy", "container c0: the liveness probe failed: HTTP 500")}


async def test_why_a_container_is_not_ready_is_told_once_in_an_event(yard: Yard) -> None:
    probe = {
        "exec": {"command": ["sh", "-c", "exit 4"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
        "timeoutSeconds": 30,
    }
    await yard.start(shell("exec sleep 600", readinessProbe=probe))
    async with asyncio.timeout(SECONDS):
        while not (told := await _events(yard)):
            await asyncio.sleep(0.05)
    assert told == {("Warning", "Unhealthy", "container c0: the readiness probe failed: exit code 4")}


def test_the_same_warning_is_told_once_in_a_while() -> None:
    warnings, one, other = PodWarnings(), PodWarning("Unhealthy", "one"), PodWarning("Unhealthy", "other")
    assert [warnings.add(each) for each in (one, one, other)] == [True, False, True]
    assert (warnings.take(), warnings.take()) == ([one, other], [])


async def _events(yard: Yard) -> set[tuple[str, str, str]]:
    found = await yard.admin.get(f"/apis/events.k8s.io/v1/namespaces/{yard.namespace}/events")
    return {(each["type"], each["reason"], each["note"]) for each in found["items"]}


async def test_a_container_that_does_not_start_in_time_is_ended(yard: Yard) -> None:
    probe = {"tcpSocket": {"port": 18081}, "periodSeconds": 1, "failureThreshold": 2, "timeoutSeconds": 30}
    await yard.start(shell("exec sleep 600", startupProbe=probe), restartPolicy="Never")
    pod = await yard.over()
    assert pod["status"]["phase"] == "Failed"
    assert terminated(pod)["message"] == "the startup probe failed: nothing listens on port 18081"


async def test_a_port_that_nothing_listens_on_is_named_while_the_container_starts(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    probe = {"tcpSocket": {"port": 18081}, "failureThreshold": 100}
    async with yard_of(cluster, namespace, tmp_path / "state", starting=0.1) as yard:
        await yard.start(shell("exec sleep 600", startupProbe=probe))
        pod = await yard.until(lambda seen: "port 18081" in str(seen["status"].get("conditions")))
    ready = next(entry for entry in pod["status"]["conditions"] if entry["type"] == "Ready")
    assert ready["message"] == (
        "containers with unready status: [c0]; the startup probe does not succeed yet: nothing listens on port 18081"
    )


async def test_a_container_that_uses_too_much_memory_is_killed(yard: Yard) -> None:
    script = "exec python3 -c 'import time; hoard = bytearray(200 * 2**20); time.sleep(600)'"
    limits = {"resources": {"limits": {"memory": "64Mi"}}}
    await yard.start(shell(script, **limits), restartPolicy="Never")
    pod = await yard.over()
    assert (terminated(pod)["reason"], terminated(pod)["exitCode"]) == ("OOMKilled", 137)


async def test_memory_of_children_counts_too(yard: Yard) -> None:
    script = "python3 -c 'import time; hoard = bytearray(200 * 2**20); time.sleep(600)'; true"
    limits = {"resources": {"limits": {"memory": "64Mi"}}}
    await yard.start(shell(script, **limits), restartPolicy="Never")
    assert terminated(await yard.over())["reason"] == "OOMKilled"


async def test_readiness_follows_a_command(yard: Yard) -> None:
    volumes, mounts = [{"name": "v", "emptyDir": {}}], [{"name": "v", "mountPath": "/v"}]
    probe = {"exec": {"command": ["test", "-e", "/v/ready"]}, "periodSeconds": 1, "failureThreshold": 1}
    created = await yard.start(shell("exec sleep 600", readinessProbe=probe, volumeMounts=mounts), volumes=volumes)
    pod = await yard.until(lambda seen: "running" in _status(seen).get("state", {}))
    assert not is_ready(pod)
    flag = yard.folder(created) / "volumes" / "v" / "ready"
    flag.touch()
    await yard.ready()
    flag.unlink()
    await yard.until(lambda seen: not is_ready(seen))


def _address(pod: Json) -> str:
    return str(pod["status"]["podIP"]).replace("240.", "127.", 1)


async def test_memory_that_children_share_counts_once(yard: Yard) -> None:
    script = "import os, time; hoard = bytearray(60 * 2**20); [os.fork() for _ in range(2)]; time.sleep(2)"
    limits = {"resources": {"limits": {"memory": "150Mi"}}}
    await yard.start(shell(f"exec python3 -c '{script}'", **limits), restartPolicy="Never")
    assert (await yard.over())["status"]["phase"] == "Succeeded"
