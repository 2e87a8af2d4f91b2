"""The two wheels in an empty environment: a model answers, with no Go, no build, no sources and no network."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controlplane import build
from tests.e2e.yards import NAMED, Yard, send_printed
from tools import wheels
from tools.wheelhouse import pack_needs

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = "modelyard_controlplane/controlplane"
_INTERPRETER = 3
"""The type of the program header that names a dynamic linker."""


@pytest.fixture(scope="module")
def at_hand(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both wheels, and those of all that they need."""
    folder = tmp_path_factory.mktemp("wheels")
    wheels.modelyard(folder)
    (folder / wheels.controlplane().name).symlink_to(wheels.controlplane())
    pack_needs("modelyard", "local", folder, but=frozenset({"modelyard-controlplane"}))
    return folder


@pytest.fixture(scope="module")
def environment(at_hand: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but what `pip install 'modelyard[local]'` puts there."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--isolated", "install", "--quiet"]
    only = ["--no-index", "--find-links", at_hand, "modelyard[local]"]
    done = subprocess.run([*pip, *only], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


async def test_a_model_answers_from_the_wheels_alone(environment: Path, tmp_path: Path) -> None:
    path = f"{environment / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
    assert shutil.which("go", path=path) is None
    yard = Yard(tmp_path / "state", (str(environment / "bin" / "modelyard"),))
    await yard.begin(KUBEBUILDER_ASSETS="", PATH=path, HOME=str(tmp_path), XDG_CACHE_HOME="", PYTHONPATH="")
    try:
        said = await yard.until_settled()
        assert (await send_printed(said)).startswith(NAMED["yard"])
    finally:
        code = await yard.stop()
    assert code == 0, yard.output.read_text()
    await yard.until_nothing_runs()


def test_the_wheel_names_every_platform_that_its_program_runs_on(assets: Path) -> None:
    wheel = wheels.controlplane()
    with zipfile.ZipFile(wheel) as files:
        program = files.read(PROGRAM)
        licences = files.read("modelyard_controlplane/LICENSES.txt").decode()
        assert files.getinfo(PROGRAM).external_attr >> 16 & 0o111
    # Linked with no libc, it runs with any: with that of manylinux and that of musllinux.
    assert _INTERPRETER not in _program_headers(program)
    assert set(wheel.stem.split("-")[-1].split(".")) >= {"manylinux_2_17_x86_64", "musllinux_1_1_x86_64"}
    for module in ("k8s.io/kubernetes", "go.etcd.io/etcd/server/v3", "sigs.k8s.io/kwok"):
        assert f"==== {module} v" in licences


def _program_headers(program: bytes) -> Iterator[int]:
    start, size, count = struct.unpack_from("<Q", program, 32)[0], *struct.unpack_from("<HH", program, 54)
    return (struct.unpack_from("<I", program, start + number * size)[0] for number in range(count))


def test_links_that_lead_nowhere_are_made_anew(environment: Path, tmp_path: Path) -> None:
    command = [environment / "bin" / "python", "-c", "import modelyard_controlplane as it; print(it.folder())"]
    run = {"env": {"HOME": str(tmp_path)}, "check": True, "capture_output": True, "text": True}
    folder = Path(subprocess.run(command, **run).stdout.strip())
    assert {link.name for link in folder.iterdir()} == set(build.PROGRAMS)
    (folder / "etcd").unlink()
    (folder / "etcd").symlink_to("/nonexistent")
    assert subprocess.run(command, **run).stdout.strip() == str(folder)
    assert (folder / "etcd").exists()
