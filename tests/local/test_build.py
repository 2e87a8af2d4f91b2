"""The control plane is built once, whole or not at all, and errors name the next step.

Go itself is played by a shell script: what is tested here is everything around the compiler.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane import build

_GO = """#!/bin/sh
echo "$1" >> "{folder}/calls"
case "$1" in
  version) echo "go version go1.{minor}.0 linux/amd64" ;;
  list) printf 'a\\nb\\n' ;;
  run) for last; do :; done; echo "ran $last" ;;
  build)
    {build}
    while [ "$1" != -o ]; do shift; done
    printf 'a\\nb\\n' >&2; sleep 0.1; echo program > "$2"; chmod +x "$2" ;;
esac
"""


class Machine:
    """A machine with a home of its own and a Go that does as told."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.cache = folder / "cache" / "modelyard" / "controlplane"

    def install_go(self, build: str = ":", minor: int = 26) -> None:
        program = self._folder / "bin" / "go"
        program.parent.mkdir(exist_ok=True)
        program.write_text(_GO.format(folder=self._folder, build=build, minor=minor))
        program.chmod(0o755)

    def start(self, **environment: str) -> subprocess.Popen[str]:
        path = f"{self._folder / 'bin'}:/usr/bin:/bin"
        return subprocess.Popen(
            [sys.executable, build.__file__],
            env={"PATH": path, "HOME": str(self._folder), "XDG_CACHE_HOME": str(self._folder / "cache"), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, **environment: str) -> tuple[int, str, str]:
        process = self.start(**environment)
        output, complaint = process.communicate(timeout=60)
        return process.returncode, output, complaint

    @property
    def builds(self) -> int:
        return (self._folder / "calls").read_text().split().count("build")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.install_go()
    return machine


def test_it_prints_the_folder_and_nothing_else_on_stdout(machine: Machine) -> None:
    code, output, progress = machine.run()
    folder = Path(output.removesuffix("\n"))
    assert (code, folder.parent) == (0, machine.cache)
    assert {entry.name for entry in folder.iterdir()} == {build.BINARY, *build.PROGRAMS}
    assert all(os.access(folder / name, os.X_OK) for name in build.PROGRAMS)
    assert "100 %" in progress


def test_a_second_call_builds_nothing(machine: Machine) -> None:
    first = machine.run()[1]
    assert machine.run() == (0, first, "")
    assert machine.builds == 1


def test_two_callers_at_the_same_time_build_once(machine: Machine) -> None:
    both = [machine.start(), machine.start()]
    outputs = {process.communicate(timeout=60)[0] for process in both}
    assert len(outputs) == 1
    assert machine.builds == 1


def test_what_a_killed_build_left_is_replaced(machine: Machine) -> None:
    folder = Path(machine.run()[1].strip())
    partial = folder.rename(folder.with_name(f"{folder.name}.partial"))
    (partial / "kube-apiserver").unlink()
    assert machine.run()[0] == 0
    assert (folder / "kube-apiserver").exists()
    assert not partial.exists()


def test_a_failed_build_leaves_nothing_and_shows_what_the_compiler_said(machine: Machine) -> None:
    machine.install_go(build="echo 'main.go:1: it is wrong' >&2; exit 1")
    code, output, complaint = machine.run()
    assert (code, output) == (1, "")
    assert "No control plane: the build failed:\nmain.go:1: it is wrong" in complaint
    assert [entry.name for entry in machine.cache.iterdir()] == ["lock"]


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("dial tcp: lookup proxy.golang.org: no such host", "check the network or GOPROXY"),
        ("write /x: no space left on device", "the disk is full; free about"),
    ],
)
def test_a_common_trouble_is_one_line_with_the_next_step(machine: Machine, said: str, remedy: str) -> None:
    machine.install_go(build=f"echo '{said}' >&2; exit 1")
    code, output, complaint = machine.run()
    assert (code, output) == (1, "")
    last = complaint.splitlines()[-1]
    assert last.startswith("No control plane: ")
    assert remedy in last


def test_a_given_folder_is_used_as_it_is(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "kube-apiserver").touch()
    assert machine.run(KUBEBUILDER_ASSETS=str(tmp_path)) == (0, f"{tmp_path}\n", "")


def test_a_given_folder_without_programs_is_an_error(machine: Machine, tmp_path: Path) -> None:
    code, output, complaint = machine.run(KUBEBUILDER_ASSETS=str(tmp_path))
    assert (code, output) == (1, "")
    assert "holds no kube-apiserver; unset it to build one, or correct it" in complaint


def test_an_old_go_is_not_used(machine: Machine) -> None:
    machine.install_go(minor=25)
    code, _, complaint = machine.run(PIP_NO_INDEX="1", PIP_FIND_LINKS="", PIP_CONFIG_FILE=os.devnull)
    assert code == 1
    assert "fetching one from PyPI" in complaint
    assert "the sources cannot be fetched" in complaint


def test_the_folder_depends_on_the_system_it_was_built_for(machine: Machine) -> None:
    assert machine.run(GOARCH="amd64")[1] != machine.run(GOARCH="arm64")[1]


def test_a_small_program_of_the_module_is_run_and_builds_nothing(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert build.run_package("fieldtypes") == "ran ./fieldtypes\n"
    assert machine.builds == 0
