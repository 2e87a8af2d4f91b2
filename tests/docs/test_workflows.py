"""The workflows are sound, call targets of `make` that there are, and use actions of a fixed commit."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from controlplane import build
from tests.support.gomodules import Module

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONLINT = Module("github.com/rhysd/actionlint@v1.7.12", "h1:vQ4GeJN86C0QH+gTUQcs8McmK62OLT3kmakPMtEWYnY=")


@pytest.fixture(scope="module")
def actionlint() -> Path:
    """The program, built once on this machine."""
    program = build.cache() / f"actionlint-{ACTIONLINT.version.rpartition('@')[2]}"
    if not program.exists():
        partial = program.with_name(f"{program.name}.{os.getpid()}")
        command = [build.find_go(), "-C", ACTIONLINT.folder(), "build", "-o", partial, "./cmd/actionlint"]
        subprocess.run(command, env={**os.environ, "GOFLAGS": "-mod=readonly"}, check=True)
        partial.rename(program)
    return program


def test_the_workflows_are_sound(actionlint: Path) -> None:
    done = subprocess.run([actionlint, "-no-color", *WORKFLOWS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_they_call_targets_that_there_are() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {name for file in WORKFLOWS for name in re.findall(r"\bmake (?:-s )?([a-z-]+)", file.read_text())}
    assert called == {"test", "wheels", "chart", "image", "image-name"}
    assert called <= targets


def test_every_action_is_of_a_fixed_commit() -> None:
    jobs = (job for file in WORKFLOWS for job in yaml.safe_load(file.read_text())["jobs"].values())
    used = {step["uses"] for job in jobs for step in job["steps"] if "uses" in step}
    assert used
    assert [action for action in used if not re.search(r"@[0-9a-f]{40}$", action)] == []


def test_no_job_may_write_unless_it_says_so() -> None:
    for file in WORKFLOWS:
        assert yaml.safe_load(file.read_text())["permissions"] == {"contents": "read"}
