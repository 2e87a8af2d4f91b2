"""The image: its steps in a clean root without a network, and the operator in it, without root and without a disk."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from modelyard import __version__
from modelyard.local.ports import free_ports
from modelyard.manifests.operator import deployment
from tests.image.containerfile import WHEELS, Root, carry_out, stages
from tests.support.operators import health
from tools.wheelhouse import pack_locked

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CONTAINERFILE = stages((ROOT / "Containerfile").read_text())
FINAL = CONTAINERFILE[-1]
SECONDS = 60.0


def context(folder: Path, wheels: Path) -> Path:
    """Return the files that the steps copy, with the hashes of the wheels at hand in the locks."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy2(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "requirements").mkdir()
    for lock in ("run.lock", "build.lock"):
        text = pack_locked((ROOT / "requirements" / lock).read_text(), wheels)
        (folder / "requirements" / lock).write_text(text)
    return folder


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """The root that the last stage ends with."""
    wheels = tmp_path_factory.mktemp("wheels")
    copied = context(tmp_path_factory.mktemp("context"), wheels)
    roots: dict[str, Root] = {}
    for stage in CONTAINERFILE:
        root = roots[stage.name] = Root(tmp_path_factory.mktemp("root"))
        if stage is not FINAL:
            root.install_python()
            shutil.copytree(wheels, root.path(WHEELS))
        root.env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": WHEELS, "PIP_NO_COMPILE": "1"}
        carry_out(stage, root, copied, roots)
    return roots[FINAL.name]


def test_every_base_is_pinned_by_its_digest() -> None:
    assert [stage.base for stage in CONTAINERFILE if not re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", stage.base)] == []


def test_it_names_a_user_by_number_who_is_not_root() -> None:
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", FINAL.last("USER"))
    assert "runAsUser" not in deployment()["spec"]["template"]["spec"]["securityContext"]


def test_it_holds_only_what_it_runs(image: Root) -> None:
    assert {path.name for path in image.path("/opt").iterdir()} == {"modelyard"}
    assert not image.path("/build").exists()
    assert not image.path(WHEELS).exists()
    site = next(image.path("/opt/modelyard/lib").glob("python*/site-packages"))
    assert [name for name in ("hatchling", "pip", "setuptools") if (site / name).exists()] == []


def test_every_user_can_read_it(image: Root) -> None:
    assert list(_unreadable(image.path("/opt/modelyard"))) == []


def _unreadable(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        wanted = 0o005 if path.is_dir() else 0o004
        if not path.is_symlink() and path.stat().st_mode & wanted != wanted:
            yield path


def test_it_runs_without_root_and_cannot_write(image: Root) -> None:
    user = FINAL.last("USER")
    run = {"capture_output": True, "text": True, "timeout": SECONDS}
    assert subprocess.run(image.command("id", "-u", user=user, mode="ro"), **run).stdout.strip() == user.split(":")[0]
    assert (
        "Read-only file system" in subprocess.run(image.command("touch", "/tmp/x", user=user, mode="ro"), **run).stderr
    )
    (entry,) = json.loads(FINAL.last("ENTRYPOINT"))
    assert subprocess.run(image.command(entry, "version", user=user, mode="ro"), **run).stdout.strip() == __version__


async def test_the_operator_leads_from_it(image: Root, installed: Path) -> None:
    shutil.copy2(installed, image.path("/kubeconfig"))
    image.env["KUBECONFIG"] = "/kubeconfig"
    ports = free_ports(2)
    words = [*json.loads(FINAL.last("ENTRYPOINT")), *json.loads(FINAL.last("CMD"))]
    flags = [f"--health-port={ports[0]}", f"--metrics-port={ports[1]}"]
    command = image.command(*words, *flags, user=FINAL.last("USER"), mode="ro")
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(SECONDS):
            while (await health(ports[0], "/readyz"))[0] != 200:
                assert process.returncode is None, await process.communicate()
                await asyncio.sleep(0.1)
    finally:
        process.terminate()
        _, log = await process.communicate()
    assert b"Traceback" not in log
