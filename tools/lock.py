"""Renew the lock files: exact versions with hashes, for every supported Python, without naming any index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILE = ("-m", "uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-emit-index-url")
PLAIN = ("--no-header", "--python-version", "3.11", "--upgrade", "--no-emit-package", "modelyard-controlplane")


def main() -> None:
    """Write requirements/*.lock."""
    _lock("run.lock", "pyproject.toml", "--extra", "fetch")
    _lock("dev.lock", "pyproject.toml", "--all-extras", "--group", "dev")
    _lock("build.lock", "requirements/build.in")
    _lock("go.lock", "requirements/go.in")


def _lock(output: str, *sources: str) -> None:
    subprocess.run([sys.executable, *COMPILE, *PLAIN, *sources, "-o", f"requirements/{output}"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
