"""The definitions of Gateway API, from its own Go module: a pinned version, verified, kept in the module cache."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from controlplane import build

MODULE = "sigs.k8s.io/gateway-api@v1.5.1"
SUM = "h1:RqVRIlkhLhUO8wOHKTLnTJA6o/1un4po4/6M1nRzdd0="


def definitions() -> list[Path]:
    """Return the files with the definitions of the standard channel."""
    command = [str(build.find_go()), "mod", "download", "-json", MODULE]
    done = subprocess.run(command, env={**os.environ, "GOFLAGS": "-mod=mod"}, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
    found = json.loads(done.stdout)
    assert found["Sum"] == SUM
    return sorted((Path(found["Dir"]) / "config" / "crd" / "standard").glob("gateway.networking.k8s.io_[!v]*.yaml"))
