"""`modelyard up` serves a real model, and can be stopped, started again and put into the background."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
from typing import TYPE_CHECKING

import yaml

from modelyard import __version__
from tests.e2e.yards import (
    COMMAND,
    DATA,
    NAMED,
    SECONDS,
    Yard,
    command,
    is_ready,
    manifest,
    model,
    running_yard,
    send_printed,
    service,
)

if TYPE_CHECKING:
    from pathlib import Path


async def test_our_own_model_answers_the_printed_question_and_the_next_start_goes_on_from_there(tmp_path: Path) -> None:
    uids = ("get", "models,inferenceservices,pods,services", "-o", "jsonpath={.items[*].metadata.uid}")
    async with running_yard(tmp_path / "state") as yard:
        said = yard.output.read_text()
        assert (await send_printed(said)).startswith(NAMED["yard"])
        assert f"export KUBECONFIG={tmp_path}/state/kubeconfig" in said
        door = yard.door
        assert "InferenceService  yard  Ready  1/1    InferenceReady  http://127.96." in said
        steps = ("programs", "API server", "definitions", "controllers", "node", "door", "operator")
        assert all(f"  {step}: " in said for step in steps)
        await yard.kubectl("scale", "inferenceservice", "yard", "--replicas=2")
        await yard.apply(service("idle", "yard", replicas=0))
        await yard.until(
            lambda body: is_ready(body) and body["status"]["readyReplicas"] == 2, "inferenceservice", "yard"
        )
        await yard.until(lambda body: body["status"].get("phase") == "Stopped", "inferenceservice", "idle")
        first = await yard.kubectl(*uids)
        weights = {file: file.stat().st_mtime_ns for file in (yard.path / "volumes").rglob("*.gguf") if file.is_file()}
    assert weights
    async with running_yard(tmp_path / "state") as yard:
        said = yard.output.read_text()
        assert re.search(r"InferenceService +idle +Stopped", said)
        assert re.search(r"InferenceService +yard +Ready +2/2", said)
        assert await yard.kubectl(*uids) == first
        assert yard.door == door
        assert {file: file.stat().st_mtime_ns for file in weights} == weights
        assert (await yard.ask("yard")).startswith(NAMED["yard"])


async def test_files_may_hold_any_kind_and_can_be_applied_again_by_kubectl(yard: Yard) -> None:
    assert "InferenceService  team/yard" in yard.output.read_text()
    assert await yard.kubectl("get", "configmap", "note", "-o", "jsonpath={.data.a}") == "b"
    file = str(yard.path.with_name("both.yaml"))
    assert "conflict" not in await yard.kubectl("apply", "--server-side", "-f", file)
    await yard.kubectl("apply", "-f", file)


async def test_it_can_be_stopped_at_any_moment_of_its_start(tmp_path: Path) -> None:
    yard = Yard(tmp_path / "state")
    moments = {
        "programs: ": signal.SIGINT,
        "API server: https": signal.SIGTERM,
        "definitions: ready": signal.SIGHUP,
        "Model yard": signal.SIGINT,
    }
    for words, how in moments.items():
        await yard.begin()
        await yard.until_said(words)
        assert await yard.stop(how) == 0
        assert "Traceback" not in yard.output.read_text()
        await yard.until_nothing_runs()


async def test_it_stops_when_its_folder_is_moved_for_no_command_would_find_it(tmp_path: Path) -> None:
    yard = Yard(tmp_path / "state")
    await yard.begin()
    await yard.until_said("Model yard")
    yard.path.rename(tmp_path / "moved")
    assert await yard.ended() == 1
    assert f"modelyard: {yard.path} was removed or moved, so everything is stopped; " in yard.output.read_text()
    await yard.until_nothing_runs()


async def test_a_second_up_in_the_same_folder_says_that_it_runs_already(yard: Yard) -> None:
    code, _, complaint = await command("up", f"--dir={yard.path}")
    assert code == 1
    assert f"Modelyard runs in {yard.path} already (process {yard.pid})" in complaint
    assert f"`modelyard down --dir={yard.path}`" in complaint


async def test_detached_it_serves_manifests_and_a_file_until_down(tmp_path: Path) -> None:
    where, options = f"--dir={tmp_path}/state", ("--detach", "-f", "-", "--model", DATA / "yard-green.gguf")
    code, said, complaint = await command("up", where, *options, stdin=yaml_of_yard(tmp_path))
    assert (code, complaint) == (0, "")
    # Of the two, the first that answers is printed first.
    assert (await send_printed(said)).startswith(tuple(NAMED.values()))
    assert (await Yard(tmp_path / "state").ask("yard-green")).startswith(NAMED["yard-green"])

    code, said, _ = await command("status", where)
    assert code == 0
    assert (await send_printed(said)).startswith(NAMED["yard"])

    code, said, _ = await command("logs", "yard", where)
    assert code == 0
    assert re.search(r"llama-server\] 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\S*Z llamacpp: serving", said)

    code, said, _ = await command("logs", "operator", where)
    assert (code, '"event": "leading"' in said) == (0, True)

    assert (await command("down", where))[:2] == (0, "stopped\n")
    await Yard(tmp_path / "state").until_nothing_runs()
    assert (await command("down", where))[:2] == (0, f"nothing runs in {tmp_path}/state\n")
    assert (await command("status", where))[0] == 1
    assert (await command("down", "--purge", where))[0] == 0
    assert not (tmp_path / "state").exists()


async def test_manifests_are_applied_to_what_runs_and_status_follows_them(yard: Yard) -> None:
    where = f"--dir={yard.path}"
    watching = await asyncio.create_subprocess_exec(
        *(*COMMAND, "status", "-w", "-o", "json", where), stdout=asyncio.subprocess.PIPE
    )
    assert watching.stdout
    try:
        async with asyncio.timeout(SECONDS):
            first = json.loads(await watching.stdout.readline())
            assert first["folder"] == str(yard.path)
            code, said, _ = await command("apply", where, "-f", "-", stdin=yaml.safe_dump(service("applied", "yard")))
            assert (code, said.splitlines()[0]) == (0, "InferenceService applied: applied")
            while not any(row["name"] == "applied" and row["isReady"] for row in first["objects"]):
                first = json.loads(await watching.stdout.readline())
    finally:
        watching.terminate()
        await watching.communicate()
    code, said, _ = await command("status", where, "-o", "json")
    shown = {(row["kind"], row["name"]): row for row in json.loads(said)["objects"]}
    assert (code, shown["InferenceService", "applied"]["ready"]) == (0, "1/1")
    await yard.answer_as("yard", shown["InferenceService", "applied"]["url"])
    code, _, complaint = await command(
        "apply", where, "-f", "-", stdin="apiVersion: v1\nkind: Pood\nmetadata: {name: x}"
    )
    assert (code, "standard input: there is no kind Pood in " in complaint) == (1, True)
    await yard.kubectl("delete", "inferenceservice", "applied")


async def test_weights_of_a_deleted_model_are_kept_until_they_are_to_go(yard: Yard, tmp_path: Path) -> None:
    where, file = f"--dir={yard.path}", tmp_path / "copy.gguf"
    shutil.copy(DATA / "yard.gguf", file)
    await yard.apply({**model("yard"), "metadata": {"name": "copy"}, "spec": {"source": str(file)}}, service("copy"))
    await yard.until_ready("copy")
    assert f"default  Model copy  {file}" in (await command("weights", where))[1]
    await yard.kubectl("delete", "model/copy", "--wait")
    assert f"default  in use by a pod  {file}" in (await command("weights", "--prune", where))[1]
    await yard.kubectl("delete", "inferenceservice/copy", "--cascade=foreground")
    await yard.kubectl("wait", "--for=delete", "pod", "-l", "app=copy", "--timeout=120s")
    code, said, _ = await command("weights", where)
    assert (code, f"default  of a deleted Model  {file}" in said) == (0, True)
    assert f"of deleted Models can be removed with `modelyard weights --prune {where}`" in said
    assert "removed 2." in (await command("weights", "--prune", where))[1]
    said = (await command("weights", where))[1]
    assert (str(file) in said, "Model yard  " in said, "Model yard-green  " in said) == (False, True, True)
    assert (await yard.answer("yard")).startswith(NAMED["yard"])


async def test_who_stops_a_start_into_the_background_leaves_nothing_there(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "up", "--detach", f"--dir={tmp_path}/state"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    async with asyncio.timeout(SECONDS):
        await process.stdout.readuntil(b"API server: starting")
        process.send_signal(signal.SIGINT)
        _, complaint = await process.communicate()
    assert process.returncode == 1
    assert b"modelyard: it was stopped before all was settled" in complaint
    await Yard(tmp_path / "state").until_nothing_runs()


async def test_logs_can_be_followed(yard: Yard) -> None:
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "logs", "yard", "-f", f"--dir={yard.path}"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    try:
        async with asyncio.timeout(SECONDS):
            await process.stdout.readuntil(b"serving")
            await yard.ask("yard")
            await process.stdout.readuntil(b"print_timing")
    finally:
        process.terminate()
        await process.communicate()


async def test_logs_are_those_of_every_pod_of_an_object_though_a_container_still_waits(yard: Yard) -> None:
    # As the pods of a Job that fetches weights ahead of time: they have no label `app`.
    meta = {"name": "fetching", "labels": {"app.kubernetes.io/instance": "fetched"}}
    says = {"name": "says", "image": "ghcr.io/modelyard/modelyard:1", "args": ["version"]}
    waits = {"name": "waits", "image": "localhost/nobody:none"}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [says, waits]}
    await yard.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    await yard.until(lambda body: "terminated" in json.dumps(body["status"]), "pod", "fetching")
    code, said, _ = await command("logs", "fetched", f"--dir={yard.path}")
    # kubectl tells of the container that waits on its standard output, too, before or after it.
    line = re.compile(rf"^\[pod/fetching/says\] 20\S+Z {re.escape(__version__)}$", re.MULTILINE)
    assert (code, bool(line.search(said))) == (0, True), said
    await yard.kubectl("delete", "pod", "fetching", "--wait=false")


async def test_logs_of_nobody_are_a_clear_error(yard: Yard) -> None:
    code, _, complaint = await command("logs", "nobody", f"--dir={yard.path}")
    assert code == 1
    assert f"nobody has no pods in the namespace default; `modelyard status --dir={yard.path}` shows" in complaint


def yaml_of_yard(folder: Path) -> str:
    return manifest(folder / "yard.yaml", model("yard"), service("yard")).read_text()
