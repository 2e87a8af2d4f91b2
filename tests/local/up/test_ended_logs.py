"""What has ended can still be read: earlier runs, deleted pods, and all of a machine that is stopped."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from modelyard.local.node.storage.pod_folders import PodFolder, PodName, ended_folder
from modelyard.local.up import commands
from modelyard.local.up.ended_logs import find_ended_logs, write_logs
from modelyard.local.up.query import NoLogs, NotUp
from modelyard.local.up.state_folder import StateFolder

if TYPE_CHECKING:
    from pathlib import Path


WRITTEN = 1_800_000_000
UNTIL = "until 2027-01-15T08:00:00Z"


def pod(state: Path, uid: str, **logs: str) -> PodFolder:
    folder = PodFolder(state, uid)
    folder.make(PodName("default", f"yard-{uid}", "yard"))
    container = folder.container("llama-server")
    container.make()
    (folder.volume("secret")).mkdir()
    for file, text in ((container.log, logs.get("log", "")), (container.previous_log, logs.get("previous", ""))):
        file.write_text(text)
        os.utime(file, (WRITTEN, WRITTEN))
    return folder


def shown(state: Path, name: str = "yard", *, is_running: bool = True) -> str:
    output = io.BytesIO()
    write_logs(find_ended_logs(state, "default", name, is_running=is_running), output)
    return output.getvalue().decode()


def test_while_the_machine_runs_earlier_runs_and_deleted_pods_have_ended(tmp_path: Path) -> None:
    pod(tmp_path, "b", log="runs\n", previous="crashed\n")
    pod(tmp_path, "a", log="was deleted\n").remove()
    assert shown(tmp_path) == (
        f"==> pod/yard-a/llama-server, {UNTIL} <==\nwas deleted\n"
        f"==> pod/yard-b/llama-server, the run before, {UNTIL} <==\ncrashed\n"
    )
    assert shown(tmp_path, "other") == ""


def test_of_a_machine_that_is_stopped_everything_has_ended(tmp_path: Path) -> None:
    pod(tmp_path, "b", log="ran\n")
    assert shown(tmp_path, is_running=False) == f"==> pod/yard-b/llama-server, {UNTIL} <==\nran\n"


def test_of_deleted_pods_the_logs_of_the_last_few_are_kept_and_nothing_else(tmp_path: Path) -> None:
    for number in range(25):
        pod(tmp_path, f"{number:02}", log="x").remove()
    kept = sorted(folder.name for folder in ended_folder(tmp_path).iterdir())
    assert kept == [f"{number:02}" for number in range(5, 25)]
    assert not list(ended_folder(tmp_path).glob("*/volumes"))
    assert not list((tmp_path / "pods").iterdir())


def test_the_command_shows_them_when_nothing_runs(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.prepare()
    with pytest.raises(NotUp):
        commands.logs("yard", "default", folder.path, follow=False)
    with pytest.raises(NoLogs, match="no log of anything that has ended is kept of yard in the namespace default"):
        commands.logs("yard", "default", folder.path, follow=False, previous=True)
    pod(folder.path, "b", log="ran\n")
    commands.logs("yard", "default", folder.path, follow=False)
    assert capfdbinary.readouterr().out == f"==> pod/yard-b/llama-server, {UNTIL} <==\nran\n".encode()
