"""What the wheel of the control plane holds besides Python: the program, and the licences of what is in it.

Hatchling calls it. GOOS and GOARCH name another platform than this one, as for Go itself.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Hatchling loads this file alone.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from controlplane import build

PACKAGE: Final = "modelyard_controlplane"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
# Linked without libc, so any will do.
_LINUX: Final = "manylinux2014_{0}.manylinux_2_17_{0}.musllinux_1_1_{0}"
_TAGS: Final = {
    ("linux", "amd64"): _LINUX.format("x86_64"),
    ("linux", "arm64"): _LINUX.format("aarch64"),
    # The oldest that Go 1.26 supports.
    ("darwin", "amd64"): "macosx_12_0_x86_64",
    ("darwin", "arm64"): "macosx_12_0_arm64",
}


class ControlPlaneHook(BuildHookInterface[Any]):
    """Adds the program, built if needed, and names the platform that it is for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Fill in the files and the tag of a wheel."""
        program = build.build_if_needed() / build.BINARY
        if not program.exists():
            raise build.BuildFailed(f"{program.parent} was not built by us; unset KUBEBUILDER_ASSETS")
        licences = program.with_name("LICENSES.txt")
        if not licences.exists():
            licences.write_text(build.licences(), encoding="utf-8")
        build_data["tag"] = f"py3-none-{_platform()}"
        build_data["pure_python"] = False
        build_data["force_include"] = {str(file): f"{PACKAGE}/{file.name}" for file in (program, licences)}


def _platform() -> str:
    machine = platform.machine()
    target = os.environ.get("GOOS", sys.platform), os.environ.get("GOARCH", _ARCHITECTURES.get(machine, machine))
    if target not in _TAGS:
        raise build.BuildFailed(f"there is no wheel for {'/'.join(target)}")
    return _TAGS[target]
