"""A Kubernetes control plane in one program: etcd, the API server, its controllers, the scheduler, kubectl and kwok.

`modelyard up` asks for its folder. The program knows by its name what to be, and a wheel cannot hold links, so they are
made on the machine.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

PROGRAM: Final = Path(__file__).resolve().with_name("controlplane")
NAMES: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")


def folder() -> Path:
    """Return a folder with the programs by their names, in the cache of the user."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "modelyard" / "installed"
    # One for each place that the package is installed in: environments must not share links to the program of one.
    found = cache / hashlib.sha256(os.fsencode(PROGRAM)).hexdigest()[:16]
    found.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        if not (found / name).exists():
            _link(found / name)
    return found


def _link(path: Path) -> None:
    # By rename: another process may do the same at this moment, or a link may lead to a program that is gone.
    with tempfile.TemporaryDirectory(dir=path.parent) as aside:
        link = Path(aside) / path.name
        link.symlink_to(PROGRAM)
        link.replace(path)
