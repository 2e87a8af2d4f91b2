"""Pods run as processes, and their status says what a kubelet would say."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING

import aiohttp

from tests.local.node.yard import Yard, conditions, runs, shell, state, terminated, until, waiting

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Kubectl

# Not as text that the node could replace.
EVERYWHERE = "import socket, time; s = socket.socket(); s.bind(('', 18082)); s.listen(); time.sleep(60)"


async def test_two_servers_on_the_same_port_run_at_addresses_of_their_own(yard: Yard) -> None:
    probe = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10}
    container = {
        "image": "test/server:1",
        "args": ["--host", "0.0.0.0", "--port", "18080"],
        "ports": [{"name": "http", "containerPort": 18080}],
        "readinessProbe": probe,
        "startupProbe": probe,
    }
    await yard.start(container, name="one")
    await yard.start(container, name="two")
    seen = [await yard.ready(name) for name in ("one", "two")]
    addresses = [pod["status"]["podIP"].replace("240.", "127.", 1) for pod in seen]
    async with aiohttp.ClientSession() as session:
        pids = [await (await session.get(f"http://{address}:18080/")).text() for address in addresses]
    assert len(set(pids)) == 2
    assert seen[0]["status"]["phase"] == "Running"
    assert state(seen[0])["running"]["startedAt"]


async def test_init_containers_run_in_order_before_the_others(yard: Yard) -> None:
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    inits = [
        {"name": "first", **shell("sleep 0.3; echo first >> /shared/order", **mount)},
        {"name": "second", **shell("echo second >> /shared/order", **mount)},
    ]
    main = shell("echo main >> /shared/order; cat /shared/order", **mount)
    volumes = [{"name": "shared", "emptyDir": {}}]
    await yard.start(main, initContainers=inits, volumes=volumes, restartPolicy="Never")
    pod = await yard.over()
    assert yard.log(pod) == "first\nsecond\nmain\n"
    assert pod["status"]["phase"] == "Succeeded"
    assert conditions(pod)["Initialized"] == "True"
    assert state(pod, 1, "initContainerStatuses")["terminated"]["reason"] == "Completed"


async def test_a_server_that_is_told_to_listen_everywhere_listens_at_the_address_of_its_pod(yard: Yard) -> None:
    code = "import os; from http.server import *; HTTPServer((os.environ['SERVER_HOST'], 18081), None).serve_forever()"
    container = {
        "image": "test/shell:1",
        "command": [sys.executable, "-c", code],
        "env": [{"name": "SERVER_HOST", "value": "0.0.0.0"}],
        "readinessProbe": {"tcpSocket": {"port": 18081}},
        "ports": [{"containerPort": 18081}],
    }
    await yard.start(container)
    pod = await yard.ready()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 18081))
        other.listen()
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_a_program_is_told_its_address_and_port_by_the_variables_of_its_rule(yard: Yard) -> None:
    told = {**shell("echo $TOLD_HOST:$TOLD_PORT"), "image": "test/told:1", "ports": [{"containerPort": 18083}]}
    await yard.start(told, restartPolicy="Never")
    pod = await yard.over()
    assert yard.log(pod) == f"{pod['status']['podIP'].replace('240.', '127.', 1)}:18083\n"


async def test_a_server_that_listens_everywhere_all_the_same_is_ended_and_says_why(yard: Yard) -> None:
    container = {
        "image": "test/shell:1",
        "command": [sys.executable, "-c", EVERYWHERE],
        "ports": [{"containerPort": 18082}],
    }
    await yard.start(container)
    pod = await yard.until(lambda seen: waiting(seen).get("reason") == "CrashLoopBackOff")
    ended = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert ended["message"].startswith("listens on 0.0.0.0:18082, where other machines reach it")
    assert "status.podIP" in ended["message"]


async def test_a_port_of_its_own_that_an_engine_opens_everywhere_is_only_told(yard: Yard) -> None:
    await yard.start({"image": "test/shell:1", "command": [sys.executable, "-c", EVERYWHERE]})
    events = f"/apis/events.k8s.io/v1/namespaces/{yard.namespace}/events"
    told = await until(yard.admin, events, lambda seen: "0.0.0.0:18082" in str(seen["items"]))
    assert [event["type"] for event in told["items"]] == ["Warning"]
    assert "running" in state(await yard.ready())


async def test_kubectl_shows_which_init_container_runs(yard: Yard, kubectl: Kubectl) -> None:
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    first = {"name": "first", **shell("until [ -e /shared/go ]; do sleep 0.1; done", **mount)}
    pod = await yard.start(shell("sleep 60"), initContainers=[first], volumes=[{"name": "shared", "emptyDir": {}}])
    seen = await yard.until(lambda seen: "running" in state(seen, 0, "initContainerStatuses"))
    assert conditions(seen)["Initialized"] == "False"
    assert seen["status"]["initContainerStatuses"][0]["ready"] is False
    assert " Init:0/1 " in await kubectl("get", "pod", "pod", f"--namespace={yard.namespace}")
    go = next(yard.folder(pod).rglob("shared")) / "go"
    go.touch()
    assert conditions(await yard.ready())["Initialized"] == "True"


async def test_an_init_container_that_fails_keeps_the_others_from_starting(yard: Yard) -> None:
    failing = {"name": "first", **shell("exit 3")}
    await yard.start(shell("true"), initContainers=[failing], restartPolicy="Never")
    pod = await yard.over()
    assert pod["status"]["phase"] == "Failed"
    assert conditions(pod)["Initialized"] == "False"
    assert waiting(pod)["reason"] == "PodInitializing"


async def test_a_sidecar_starts_first_and_ends_when_the_others_have(yard: Yard) -> None:
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    script = "touch /shared/there; trap 'exit 0' TERM; while :; do sleep 0.1; done"
    sidecar = {"name": "sidecar", "restartPolicy": "Always", **shell(script, **mount)}
    volumes = [{"name": "shared", "emptyDir": {}}]
    main = shell("until test -e /shared/there; do sleep 0.1; done; echo saw it", **mount)
    await yard.start(main, initContainers=[sidecar], volumes=volumes, restartPolicy="Never")
    pod = await yard.over()
    assert (pod["status"]["phase"], yard.log(pod)) == ("Succeeded", "saw it\n")
    await yard.until(lambda seen: "terminated" in state(seen, 0, "initContainerStatuses"))


async def test_a_sidecar_of_a_deleted_pod_ends_after_the_others(yard: Yard, tmp_path: Path) -> None:
    def says(word: str, pause: str) -> str:
        return f"trap 'sleep {pause}; echo {word} >> {tmp_path}/order; exit 0' TERM; while :; do sleep 0.05; done"

    sidecar = {"name": "sidecar", "restartPolicy": "Always", **shell(says("sidecar", "0"))}
    await yard.start(shell(says("main", "0.5")), initContainers=[sidecar])
    await yard.ready()
    await yard.delete()
    await yard.gone()
    assert (tmp_path / "order").read_text().split() == ["main", "sidecar"]


async def test_a_job_completes(yard: Yard) -> None:
    path = f"/apis/batch/v1/namespaces/{yard.namespace}/jobs"
    template = {"spec": yard.pod(shell("echo done"), restartPolicy="Never")["spec"]}
    await yard.admin.create(path, {"metadata": {"name": "job"}, "spec": {"template": template}})
    await until(yard.admin, f"{path}/job", lambda job: job["status"].get("succeeded") == 1)


async def test_a_failed_job_tries_again_with_another_pod(yard: Yard) -> None:
    path = f"/apis/batch/v1/namespaces/{yard.namespace}/jobs"
    template = {"spec": yard.pod(shell("exit 4"), restartPolicy="Never")["spec"]}
    await yard.admin.create(path, {"metadata": {"name": "job"}, "spec": {"backoffLimit": 0, "template": template}})
    await until(yard.admin, f"{path}/job", lambda job: job["status"].get("failed") == 1)


async def test_the_exit_code_and_the_termination_message_are_shown(yard: Yard) -> None:
    await yard.start(
        shell('printf "out of %s" luck > "$TERMINATION_LOG"; exit 3'),
        shell("echo by path > /dev/termination-log; exit 4"),
        shell("echo the last line; exit 5", terminationMessagePolicy="FallbackToLogsOnError"),
        shell("kill -9 $$$$"),
        restartPolicy="Never",
    )
    pod = await yard.over()
    ended = [terminated(pod, number) for number in range(4)]
    assert [(each["exitCode"], each["reason"]) for each in ended] == [(n, "Error") for n in (3, 4, 5, 137)]
    messages = [each.get("message", "") for each in ended]
    assert messages == ["out of luck", "by path\n", "the last line", ""]


async def test_a_deleted_pod_is_asked_to_end_and_then_gone(yard: Yard) -> None:
    script = "trap 'echo asked; exit 0' TERM; echo running; while :; do sleep 0.05; done"
    created = await yard.start(shell(script))
    await _first_line(yard, created)
    with (yard.folder(created) / "containers" / "c0" / "log").open() as log:
        await yard.delete()
        await yard.gone()
        assert log.read() == "running\nasked\n"
    async with asyncio.timeout(60):
        while yard.folder(created).exists():
            await asyncio.sleep(0.02)


async def test_a_process_that_does_not_end_is_killed_after_its_grace(yard: Yard) -> None:
    script = "trap '' TERM; echo $$$$; while :; do sleep 0.05; done"
    created = await yard.start(shell(script), terminationGracePeriodSeconds=1)
    pid = await _first_line(yard, created)
    await yard.ready()
    await yard.delete()
    await yard.gone()
    async with asyncio.timeout(60):
        while runs(pid):
            await asyncio.sleep(0.02)


async def test_a_forced_deletion_ends_the_process_too(yard: Yard) -> None:
    created = await yard.start(shell("echo $$$$; exec sleep 600"))
    pid = await _first_line(yard, created)
    await yard.ready()
    await yard.delete("pod?gracePeriodSeconds=0")
    async with asyncio.timeout(60):
        while runs(pid):
            await asyncio.sleep(0.02)


async def test_children_of_a_process_end_with_it_even_in_a_session_of_their_own(yard: Yard) -> None:
    script = "sleep 600 & echo $!; setsid sleep 600 & echo $!; sleep 0.2"
    created = await yard.start(shell(script), restartPolicy="Never")
    await yard.over()
    near, far = yard.log(created).split()
    async with asyncio.timeout(60):
        while runs(near) or runs(far):
            await asyncio.sleep(0.02)


async def test_a_hook_after_the_start_that_fails_ends_the_container(yard: Yard) -> None:
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "exit 3"]}}}
    await yard.start(shell("exec sleep 600", lifecycle=hook), restartPolicy="Never")
    pod = await yard.over()
    assert terminated(pod)["message"] == "the postStart hook failed: exit code 3"


async def test_a_pod_that_is_active_for_too_long_fails(yard: Yard) -> None:
    # Long enough for it to have started, also on a machine that is slow.
    await yard.start(shell("exec sleep 600"), activeDeadlineSeconds=4)
    status = (await yard.over())["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert "activeDeadlineSeconds" in status["message"]
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


async def test_the_hook_before_the_end_runs_within_the_grace(yard: Yard) -> None:
    volumes, mount = [{"name": "v", "emptyDir": {}}], [{"name": "v", "mountPath": "/v"}]
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /v/order"]}}}
    script = "trap 'cat /v/order; exit 0' TERM; echo running; while :; do sleep 0.05; done"
    created = await yard.start(shell(script, lifecycle=hook, volumeMounts=mount), volumes=volumes)
    await _first_line(yard, created)
    with (yard.folder(created) / "containers" / "c0" / "log").open() as log:
        await yard.delete()
        await yard.gone()
        assert log.read() == "running\nhook\n"


async def test_a_sleep_before_the_end_is_left_out_because_the_proxy_is_never_late(yard: Yard) -> None:
    hook = {"preStop": {"sleep": {"seconds": 3600}}}
    script = "trap 'exit 0' TERM; echo running; while :; do sleep 0.05; done"
    created = await yard.start(shell(script, lifecycle=hook), terminationGracePeriodSeconds=3600)
    await _first_line(yard, created)
    await yard.delete()
    await yard.gone()


async def test_an_image_without_a_program_says_what_to_install(yard: Yard) -> None:
    await yard.start({"image": "test/absent:1"})
    pod = await yard.until(lambda seen: waiting(seen).get("reason") == "ErrImageNeverPull")
    assert waiting(pod)["message"] == "no program for image test/absent:1 on this machine: install no-such-program"
    assert pod["status"]["phase"] == "Pending"


async def test_an_image_that_nobody_knows_says_what_would_help(yard: Yard) -> None:
    await yard.start({"image": "registry.example.com/unknown:1"})
    pod = await yard.until(lambda seen: waiting(seen).get("reason") == "ErrImageNeverPull")
    # A machine may have a client without its service: then that is to be started.
    remedies = ("install podman or docker", "docker is there, but", "podman is there, but")
    assert any(remedy in waiting(pod)["message"] for remedy in remedies)


async def test_a_program_that_cannot_be_started_is_a_start_error(yard: Yard, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("no program at all")
    broken.chmod(0o700)
    await yard.start({"image": "test/shell", "command": [str(broken)]}, restartPolicy="Never")
    pod = await yard.over()
    assert (terminated(pod)["exitCode"], terminated(pod)["reason"]) == (128, "StartError")
    assert "cannot be started" in terminated(pod)["message"]


async def test_a_readiness_gate_keeps_a_pod_from_being_ready(yard: Yard) -> None:
    await yard.start(shell("exec sleep 600"), readinessGates=[{"conditionType": "example.com/open"}])
    pod = await yard.until(lambda seen: conditions(seen).get("ContainersReady") == "True")
    assert conditions(pod)["Ready"] == "False"
    opened = [*pod["status"]["conditions"], {"type": "example.com/open", "status": "True"}]
    await yard.admin.patch(f"{yard.path}/pods/pod/status", {"status": {"conditions": opened}})
    assert conditions(await yard.ready())["example.com/open"] == "True"


async def test_a_status_that_somebody_else_spoils_is_put_right(yard: Yard) -> None:
    await yard.start(shell("exec sleep 600"))
    pod = await yard.ready()
    spoiled = [{**entry, "status": "False"} for entry in pod["status"]["conditions"]]
    await yard.admin.patch(f"{yard.path}/pods/pod/status", {"status": {"conditions": spoiled}})
    await yard.ready()


async def test_a_pod_at_rest_is_not_written_again(yard: Yard) -> None:
    pod = yard.pod(shell("exec sleep 600"), name="resting", nodeSelector={"kubernetes.io/hostname": yard.node})
    del pod["spec"]["nodeName"]  # so that the scheduler writes to the status too
    await yard.admin.create(f"{yard.path}/pods", pod)
    before = await yard.ready("resting")
    await yard.start(shell("exec sleep 600"), name="other")
    await yard.ready("other")
    after = await yard.admin.get(f"{yard.path}/pods/resting")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_double_dollar_stands_for_one_as_in_any_cluster(yard: Yard) -> None:
    await yard.start(shell("echo '$$(HOME) $(NAME) $(NOBODY)'", env=[{"name": "NAME", "value": "yard"}]))
    pod = await yard.until(lambda seen: bool(state(seen).get("running") or waiting(seen).get("reason")))
    assert await _first_line(yard, pod) == "$(HOME) yard $(NOBODY)"


async def _first_line(yard: Yard, pod: dict[str, object]) -> str:
    log = yard.folder(pod) / "containers" / "c0" / "log"
    async with asyncio.timeout(60):
        while not (log.exists() and "\n" in log.read_text()):
            await asyncio.sleep(0.02)
    return log.read_text().splitlines()[0]
