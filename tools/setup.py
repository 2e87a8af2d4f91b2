"""Make `.venv`, with the locked dependencies and this package in it. Needs only a Python.

With the argument `browser`, see to the browser that tests of the page need. On a Debian, and as root, packages of the
system that are missing (`venv` of Python, Chromium) are installed; otherwise the command that installs them is named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements" / "dev.lock"
OLDEST = (3, 11)
EVERY_SECONDS = 3.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NO_BROWSER = "there is no Chromium; install it with: apt-get install chromium, or name a browser in CHROMIUM"


def main(arguments: list[str]) -> int:
    """Set everything up, and say in one line what is missing."""
    return browser() if arguments == ["browser"] else environment()


def browser() -> int:
    """See to it that there is a Chromium, or one that the variable CHROMIUM names."""
    if os.environ.get("CHROMIUM") or any(map(shutil.which, BROWSERS)):
        return 0
    _say("installing chromium, for the tests of the page")
    if _install("chromium") and shutil.which("chromium"):
        return 0
    return _fail(NO_BROWSER)


def environment() -> int:
    """Make `.venv`."""
    if sys.version_info < OLDEST:
        return _fail(f"Python {sys.version.split()[0]} is too old; run make with PYTHON=python3.11 or newer")
    if not (VENV / "bin" / "python").exists() and not _make_venv():
        return _fail("Python's venv module is missing; install it with: apt-get install python3-venv")
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar=off"]
    try:
        install_locked([*pip, "--require-hashes", "-r", str(LOCK)])
        subprocess.run([*pip, "--quiet", "--no-deps", "--no-build-isolation", "--editable", "."], cwd=ROOT, check=True)
    except subprocess.CalledProcessError:
        return _fail("pip could not install the dependencies; its message is above (is the package index reachable?)")
    return 0


def install_locked(command: list[str], every_seconds: float = EVERY_SECONDS) -> None:
    """Run pip and tell how far it is: it takes a minute, and pip tells either nothing or several lines per package."""
    count = sum("==" in line for line in LOCK.read_text().splitlines())
    _say(f"installing {count} locked packages, which takes a minute or so")
    said, found = time.monotonic(), 0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            found += line.startswith("Collecting ")
            if line.startswith("Installing collected packages"):
                _say(f"{count} of {count} packages are here; unpacking them")
            elif time.monotonic() - said > every_seconds:
                said = time.monotonic()
                _say(f"{found} of {count} packages are here")
    if pip.returncode != 0:
        raise subprocess.CalledProcessError(pip.returncode, command)


def _make_venv() -> bool:
    _say("making .venv")
    if _venv():
        return True
    _say("python3-venv is missing")
    return _install("python3-venv", f"python{sys.version_info.major}.{sys.version_info.minor}-venv") and _venv()


def _install(*packages: str) -> bool:
    """Install packages of Debian; False: we may not, or it failed."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    commands = (["update"], ["install", "--yes", "--no-install-recommends", *packages])
    done = [subprocess.run(["apt-get", "--quiet", *words], stdout=sys.stderr, check=False) for words in commands]
    return done[-1].returncode == 0


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
    sys.exit(main(sys.argv[1:]))
