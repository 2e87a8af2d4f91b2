"""Completion for shells, and `modelyard` as a plugin of kubectl."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from modelyard import __version__
from modelyard.cli.main import complete_for_kubectl
from modelyard.cli.verbs import COMPLETE, app
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


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("modelyard expl", ["explain"]),
        ("modelyard get mode", ["modeldeployments", "models"]),
        ("modelyard explain inferenceh", ["inferencehost/"]),
    ],
)
def test_verbs_and_kinds_are_completed(words: str, completed: list[str]) -> None:
    environ = {COMPLETE: "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = CliRunner().invoke(app, [], prog_name="modelyard", env=environ)
    assert sorted(done.stdout.split()) == completed


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
