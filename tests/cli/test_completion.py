"""Completion for shells, and `modelyard` as a plugin of kubectl."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import tomllib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from modelyard import __version__
from modelyard.cli.main import complete_for_kubectl
from modelyard.cli.verbs import COMPLETE, app
from modelyard.local.kubeconfig import write_kubeconfig
from tests.cli.running import examples, invoke

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster

ROOT = Path(__file__).parents[2]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_asks_modelyard(shell: str) -> None:
    ran = invoke("completion", shell, kubeconfig=None)
    assert ran.code == 0
    assert f"{COMPLETE}=complete_{shell}" in ran.out


def test_the_example_of_its_page_prints_what_the_page_says() -> None:
    (example,) = examples("completion.md")
    assert invoke(*example.words, kubeconfig=None).out == example.out


def test_the_script_for_bash_is_one_that_bash_reads() -> None:
    script = invoke("completion", "bash", kubeconfig=None).out
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_the_script_for_zsh_is_one_that_it_finds_and_that_completes_at_the_first_tab() -> None:
    lines = invoke("completion", "zsh", kubeconfig=None).out.splitlines()
    # zsh reads the first line of each file of its folders, and calls the file as a function of its name.
    assert lines[0] == "#compdef modelyard"
    assert lines[-1] == "[[ $funcstack[1] != _modelyard ]] || _modelyard_completion"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("modelyard expl", ["explain"]),
        ("modelyard get mode", ["modeldeployments", "models"]),
        ("modelyard explain inferenceh", ["inferencehost/"]),
    ],
)
def test_verbs_and_kinds_are_completed_without_a_cluster(words: str, completed: list[str]) -> None:
    assert offered(words, None) == completed


def offered(words: str, kubeconfig: Path | None, shell: str = "bash") -> list[str]:
    """Return what a shell is told may stand in place of the last word."""
    environ = {
        COMPLETE: f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "KUBECONFIG": str(kubeconfig) if kubeconfig else None,
        "HOME": "/nonexistent",
    }
    done = CliRunner().invoke(app, [], prog_name="modelyard", env=environ)
    assert (done.exit_code, done.stderr) == (0, "")
    return sorted(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("modelyard get -n tea", ["team"]),
        ("modelyard get -n team isvc l", ["large"]),
        ("modelyard get -n team models/t", ["models/tiny"]),
        ("modelyard explain -n team inferenceservice/c", ["inferenceservice/chat"]),
        ("modelyard explain -n team nothing/c", []),
        ("modelyard get -n nowhere model t", []),
    ],
)
async def test_names_of_the_cluster_are_completed(scene: Path, words: str, completed: list[str]) -> None:
    assert await asyncio.to_thread(offered, words, scene) == completed


@pytest.mark.parametrize("shell", ["zsh", "fish"])
async def test_other_shells_are_offered_the_same_names(scene: Path, shell: str) -> None:
    told = await asyncio.to_thread(offered, "modelyard get -n team model t", scene, shell)
    assert any("tiny" in word for word in told)


async def test_where_the_cluster_cannot_be_asked_nothing_is_offered(stranger: Path, elsewhere: Path) -> None:
    for kubeconfig in (None, stranger, elsewhere):
        assert await asyncio.to_thread(offered, "modelyard get -n te", kubeconfig) == []


def test_a_cluster_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        silent = write_kubeconfig(tmp_path / "config", address, b"", {"token": "none"})
        began = time.monotonic()
        assert offered("modelyard get model t", silent) == []
        assert time.monotonic() - began < 20


def test_every_program_of_the_package_exists() -> None:
    for target in SCRIPTS.values():
        module, _, name = target.partition(":")
        assert callable(getattr(import_module(module), name))
    assert SCRIPTS["kubectl-modelyard"] == SCRIPTS["modelyard"]


def test_kubectl_is_told_what_may_follow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-modelyard", "queu"])
    for name in ("COMP_WORDS", "COMP_CWORD", COMPLETE):
        monkeypatch.setenv(name, "")  # so that what is set is put back
    complete_for_kubectl()
    assert capsys.readouterr().out == "queue\n:4\n"


def test_kubectl_finds_it_as_a_plugin(cluster: Cluster, tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-modelyard"
    plugin.write_text(f"#!{sys.executable}\nfrom modelyard.cli.main import main\nmain()\n")
    plugin.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [cluster.controlplane.kubectl, "modelyard", "version"],
        env={**os.environ, "PATH": path}, cwd=ROOT, text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{__version__}\n"
