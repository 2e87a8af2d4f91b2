"""Make `.venv`, with the locked dependencies and this package in it. Needs only a Python.

On a Debian where Python comes without `venv`, and as root, the missing package is installed; otherwise the command
that installs it is named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST = (3, 11)


def main() -> int:
    """Set everything up, and say in one line what is missing."""
    if sys.version_info < OLDEST:
        return _fail(f"Python {sys.version.split()[0]} is too old; run make with PYTHON=python3.11 or newer")
    if not (VENV / "bin" / "python").exists() and not _make_venv():
        return _fail("Python's venv module is missing; install it with: apt-get install python3-venv")
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _say("installing locked dependencies")
    try:
        subprocess.run([*pip, "--require-hashes", "-r", "requirements/dev.lock"], cwd=ROOT, check=True)
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--editable", "."], cwd=ROOT, check=True)
    except subprocess.CalledProcessError:
        return _fail("pip could not install the dependencies; its message is above (is the package index reachable?)")
    return 0


def _make_venv() -> bool:
    _say("making .venv")
    if _venv():
        return True
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    _say("installing python3-venv")
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    for command in (["update"], ["install", "--yes", "python3-venv", package]):
        subprocess.run(["apt-get", "--quiet", *command], stdout=sys.stderr, check=False)
    return _venv()


def _venv() -> bool:
    shutil.rmtree(VENV, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], stdout=subprocess.DEVNULL, check=False)
    return made.returncode == 0


def _say(line: str) -> None:
    sys.stderr.write(f"setup: {line}\n")


def _fail(line: str) -> int:
    _say(line)
    return 1


if __name__ == "__main__":
    sys.exit(main())
