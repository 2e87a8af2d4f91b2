"""Go modules that tests take files or programs from: pinned versions, verified, kept in the module cache."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from msgspec import Struct

from controlplane import build


class Module(Struct, frozen=True):
    """A version of a module, and the hash of its files."""

    version: str
    sum: str

    def folder(self) -> Path:
        """Return where its files are, fetched if need be."""
        command = [str(build.find_go()), "mod", "download", "-json", self.version]
        done = subprocess.run(command, env={**os.environ, "GOFLAGS": "-mod=mod"}, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
        found = json.loads(done.stdout)
        assert found["Sum"] == self.sum
        return Path(found["Dir"])
