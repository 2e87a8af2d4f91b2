"""The verbs for clusters on one machine: a real model answers, and a real crash is explained."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.cli.running import run
from tests.e2e.yards import DATA, NAMED, condition, model, service

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.e2e.yards import Yard


async def test_a_model_is_asked_at_its_address_on_this_machine(yard: Yard) -> None:
    ran = await run("ask", "yard", "Which model are you?", "-o", "json", kubeconfig=yard.folder.kubeconfig)
    said = json.loads(ran.out)
    assert said["answer"].startswith(NAMED["yard"])
    assert said["figures"]["tokens"] > 1


async def test_a_key_goes_through_a_port_that_kubectl_forwards(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the kubeconfig says nothing of this machine, so this goes the way that it goes on a cluster."""
    copy = tmp_path / "config"
    shutil.copy(yard.folder.kubeconfig, copy)
    monkeypatch.setenv("PATH", f"{yard.folder.read_record().assets}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MODELYARD_API_KEY", "any")
    ran = await run("ask", "yard", "Which model are you?", kubeconfig=copy)
    assert (ran.code, ran.out.startswith(NAMED["yard"])) == (0, True)


async def test_nothing_is_wrong_with_a_machine_that_is_up_and_its_own_manifests_change_nothing(
    yard: Yard, tmp_path: Path
) -> None:
    kubeconfig = yard.folder.kubeconfig
    examined = await run("doctor", "-o", "json", kubeconfig=kubeconfig)
    wrong = [one for one in json.loads(examined.out)["findings"] if one["state"] == "wrong"]
    assert (examined.code, wrong) == (0, [])
    file = tmp_path / "model.yaml"
    file.write_text(await yard.kubectl("get", "model", "yard", "-o", "yaml"))
    planned = await run("plan", "-f", str(file), "--live", kubeconfig=kubeconfig)
    assert (planned.code, planned.out, planned.err) == (0, "", "nothing would change\n")


async def test_logs_end_without_a_word_when_nothing_reads_them_any_more(yard: Yard) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "modelyard", "logs", "operator", "--dir", str(yard.folder.path)]
    done = await asyncio.to_thread(subprocess.run, words, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


async def test_a_crash_is_explained_by_the_log_of_what_crashed(yard: Yard) -> None:
    await yard.apply(service("broken", "yard", extraArgs=["--no-such-flag"]))
    await yard.until(lambda body: condition(body).get("reason") == "CrashLoop", "inferenceservice", "broken")
    ran = await run("explain", "isvc/broken", "-o", "json", kubeconfig=yard.folder.kubeconfig)
    told = json.loads(ran.out)
    assert any("no-such-flag" in line for log in told["logs"] for line in log["lines"])
    program, *words = told["next"][0].split()
    assert (program, "no-such-flag" in await yard.kubectl(*words)) == ("kubectl", True)
    await yard.kubectl("delete", "inferenceservice", "broken")


async def test_weights_that_nothing_uses_are_named_and_removed_and_others_stay(yard: Yard, tmp_path: Path) -> None:
    kubeconfig = yard.folder.kubeconfig
    source = tmp_path / "left.gguf"
    shutil.copy(DATA / "yard.gguf", source)
    left = model("left")
    await yard.apply({**left, "spec": {**left["spec"], "source": f"file://{source}"}}, service("left"))
    await yard.until_ready("left")
    await yard.kubectl("delete", "inferenceservice/left", "model/left")
    await yard.kubectl("wait", "--for=delete", "--timeout=120s", "pod", "-l", "app.kubernetes.io/instance=left")
    refused = await run("cache", "rm", kubeconfig=kubeconfig, text="n\n")
    assert refused.code == 1
    assert f"{source} (" in refused.err
    removed = await run("cache", "rm", "--yes", kubeconfig=kubeconfig)
    assert (removed.code, removed.out.count("removed ")) == (0, 1)
    found = json.loads((await run("cache", "--scan", "-o", "json", kubeconfig=kubeconfig)).out)
    used = [user for one in found["weights"] for user in one["usedBy"]]
    assert {"Model yard", "Model yard-green"} <= set(used)
    assert str(source) not in json.dumps(found)
    assert (await run("cache", "rm", "--yes", kubeconfig=kubeconfig)).code == 3
    assert (await yard.answer("yard")).startswith(NAMED["yard"])
