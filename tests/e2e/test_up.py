"""`modelyard up` serves a real model, and can be stopped, started again and put into the background."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from tests.e2e.yards import COMMAND, DATA, NAMED, Yard, command, manifest, model, running_yard, send_printed, service

if TYPE_CHECKING:
    from pathlib import Path


async def test_without_any_file_our_own_model_answers_the_printed_question(tmp_path: Path) -> None:
    async with running_yard(tmp_path / "state") as yard:
        said = yard.output.read_text()
        assert (await send_printed(said)).startswith(NAMED["yard"])
        assert f"export KUBECONFIG={tmp_path}/state/kubeconfig" in said
        assert "InferenceService  yard  Ready  1/1    InferenceReady  http://127.96." in said
        steps = ("programs", "API server", "definitions", "controllers", "node", "operator")
        assert all(f"  {step}: " in said for step in steps)


async def test_a_second_start_goes_on_with_the_same_objects_and_weights(tmp_path: Path) -> None:
    async with running_yard(tmp_path / "state") as yard:
        first = await yard.kubectl("get", "models,inferenceservices,pods,services", "-o", "name")
        uids = await yard.kubectl("get", "models,inferenceservices,pods", "-o", "jsonpath={.items[*].metadata.uid}")
        weights = {file: file.stat().st_mtime_ns for file in (yard.path / "volumes").rglob("*.gguf") if file.is_file()}
        await yard.kubectl("annotate", "model", "yard", "kept=yes")
    assert weights
    async with running_yard(tmp_path / "state") as yard:
        assert await yard.kubectl("get", "models,inferenceservices,pods,services", "-o", "name") == first
        again = await yard.kubectl("get", "models,inferenceservices,pods", "-o", "jsonpath={.items[*].metadata.uid}")
        assert again == uids
        assert {file: file.stat().st_mtime_ns for file in weights} == weights
        assert (await yard.ask("yard")).startswith(NAMED["yard"])


async def test_what_the_user_changed_survives_a_start_without_files(tmp_path: Path) -> None:
    async with running_yard(tmp_path / "state") as yard:
        await yard.kubectl("scale", "inferenceservice", "yard", "--replicas=0")
        await yard.until(lambda body: body["status"].get("phase") == "Stopped", "inferenceservice", "yard")
    async with running_yard(tmp_path / "state") as yard:
        assert "Stopped" in yard.output.read_text()
        assert await yard.kubectl("get", "inferenceservice", "yard", "-o", "jsonpath={.spec.replicas}") == "0"


async def test_model_serves_a_file_of_this_machine(tmp_path: Path) -> None:
    async with running_yard(tmp_path / "state", "--model", DATA / "yard-green.gguf") as yard:
        assert (await send_printed(yard.output.read_text())).startswith(NAMED["yard-green"])


async def test_files_may_hold_any_kind_and_can_be_applied_again_by_kubectl(tmp_path: Path) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}, "data": {"a": "b"}}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    there = service("yard")
    there["metadata"]["namespace"] = weights_namespace = "team"
    weights = model("yard")
    weights["metadata"]["namespace"] = weights_namespace
    file = manifest(tmp_path / "all.yaml", space, config, weights, there)
    async with running_yard(tmp_path / "state", "-f", file) as yard:
        assert "InferenceService  team/yard  Ready" in yard.output.read_text()
        assert await yard.kubectl("get", "configmap", "note", "-o", "jsonpath={.data.a}") == "b"
        assert "conflict" not in await yard.kubectl("apply", "--server-side", "-f", str(file))
        await yard.kubectl("apply", "-f", str(file))


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
        await until_said(yard, words)
        assert await yard.stop(how) == 0
        assert "Traceback" not in yard.output.read_text()
        await yard.until_nothing_runs()


async def test_a_second_up_in_the_same_folder_says_that_it_runs_already(yard: Yard) -> None:
    code, _, complaint = await command("up", f"--dir={yard.path}")
    assert code == 1
    assert f"Modelyard runs in {yard.path} already (process {yard.pid})" in complaint
    assert "`modelyard down`" in complaint


async def test_detached_it_goes_on_until_down(tmp_path: Path) -> None:
    where = f"--dir={tmp_path}/state"
    code, said, complaint = await command("up", where, "--detach", "-f", "-", stdin=yaml_of_yard(tmp_path))
    assert (code, complaint) == (0, "")
    assert (await send_printed(said)).startswith(NAMED["yard"])

    code, said, _ = await command("status", where)
    assert code == 0
    assert (await send_printed(said)).startswith(NAMED["yard"])

    code, said, _ = await command("logs", "yard", where)
    assert code == 0
    assert "llama-server] llamacpp: serving" in said

    code, said, _ = await command("logs", "operator", where)
    assert (code, '"event": "leading"' in said) == (0, True)

    assert (await command("down", where))[:2] == (0, "stopped\n")
    await Yard(tmp_path / "state").until_nothing_runs()
    assert (await command("down", where))[:2] == (0, f"nothing runs in {tmp_path}/state\n")
    assert (await command("status", where))[0] == 1


async def test_who_stops_a_start_into_the_background_leaves_nothing_there(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "up", "--detach", f"--dir={tmp_path}/state"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    async with asyncio.timeout(60):
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
        async with asyncio.timeout(60):
            await process.stdout.readuntil(b"serving")
            await yard.ask("yard")
            await process.stdout.readuntil(b"print_timing")
    finally:
        process.terminate()
        await process.communicate()


async def test_logs_of_nobody_are_a_clear_error(yard: Yard) -> None:
    code, _, complaint = await command("logs", "nobody", f"--dir={yard.path}")
    assert code == 1
    assert "nobody has no pods in the namespace default; `modelyard status` shows" in complaint


def yaml_of_yard(folder: Path) -> str:
    return manifest(folder / "yard.yaml", model("yard"), service("yard")).read_text()


async def until_said(yard: Yard, words: str) -> None:
    async with asyncio.timeout(60):
        while words not in yard.output.read_text():
            await asyncio.sleep(0.01)
