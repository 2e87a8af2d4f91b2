"""`make wheels`: the wheels of Modelyard and of the control plane, in `dist/`.

That of the control plane takes a while to compress and changes only with it, so it is kept beside the program.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from controlplane import build

ROOT: Final = Path(__file__).resolve().parent.parent
DIST: Final = ROOT / "dist"


def main() -> int:
    """Build both wheels, and print their paths."""
    DIST.mkdir(exist_ok=True)
    try:
        wheels = (modelyard(DIST), Path(shutil.copy2(controlplane(), DIST)))
    except build.BuildFailed as failure:
        sys.stderr.write(f"No wheels: {failure}\n")
        return 1
    for wheel in wheels:
        sys.stdout.write(f"{wheel.relative_to(ROOT)}  {wheel.stat().st_size / 1e6:.1f} MB\n")
    return 0


def modelyard(folder: Path) -> Path:
    """Build the wheel of Modelyard in a folder, and return its file."""
    with tempfile.TemporaryDirectory() as aside:
        return Path(shutil.copy2(_built(ROOT, Path(aside)), folder))


def controlplane() -> Path:
    """Return the wheel of the control plane, built unless there is one of the same program."""
    kept = build.build_if_needed() / "wheel"
    if not kept.exists():
        # By rename: another process may build the same, and a part of a wheel must never be found.
        with tempfile.TemporaryDirectory(dir=kept.parent) as aside:
            made = Path(aside) / "wheel"
            _built(build.MODULE, made)
            with suppress(OSError):  # the other process was first
                made.rename(kept)
    (wheel,) = kept.glob("*.whl")
    return wheel


def _built(sources: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise build.BuildFailed(done.stderr)
    (wheel,) = folder.glob("*.whl")
    return wheel


if __name__ == "__main__":
    sys.exit(main())
