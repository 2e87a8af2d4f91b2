"""The steps of a Containerfile without a container engine: in a root of their own, by `unshare` and `chroot`.

The base image is played by the `/usr` and the Python of this machine, and the package index by a folder of wheels.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pip
from msgspec import Struct

Step = tuple[str, str]

WHEELS = "/wheels"
_BASE = "/base"
_PYTHON = Path(sys.base_prefix).resolve()
_SHOWN = ("/usr", "/dev", str(_PYTHON))
_LINKS = ("bin", "lib", "lib64", "sbin")
# What may mount is needed to enter, and not afterwards.
_NO_RIGHTS = ("setpriv", "--inh-caps=-all", "--ambient-caps=-all")
_ENTER = """set -e
root=$1; mode=$2; shift 2
for each in {shown}; do mount --rbind "$each" "$root$each"; done
mount --rbind "$root" "$root"; mount -o "remount,bind,$mode" "$root"
exec chroot "$root" "$@"
"""


class Stage(Struct, frozen=True):
    """A `FROM`, its name if it has one, and the steps that follow."""

    base: str
    name: str
    steps: tuple[Step, ...]

    def last(self, instruction: str) -> str:
        """Return the argument of the last step of a kind."""
        return [text for word, text in self.steps if word == instruction][-1]


def stages(text: str) -> list[Stage]:
    """Return the stages of a Containerfile."""
    lines = (line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#"))
    found: list[tuple[str, list[Step]]] = []
    for word, rest in (line.split(maxsplit=1) for line in lines):
        if word == "FROM":
            found.append((rest, []))
        else:
            found[-1][1].append((word, rest))
    return [Stage(*head.partition(" AS ")[::2], tuple(steps)) for head, steps in found]


class Root:
    """The file system of a stage, and what its steps have set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"PATH": f"{_BASE}/bin:/usr/bin:/bin", "HOME": "/tmp"}
        self.workdir = "/"
        for path in (*_SHOWN, "/tmp", _BASE):
            self.path(path).mkdir(parents=True, exist_ok=True)
        for name in _LINKS:
            if Path("/", name).is_symlink():
                self.path(f"/{name}").symlink_to(f"usr/{name}")

    def path(self, inside: str) -> Path:
        """Return where a path of the root is on this machine."""
        return self.folder / inside.lstrip("/")

    def install_python(self) -> None:
        """Make the `python` and `pip` that the base image would have."""
        self.run(f"{_PYTHON}/bin/python3 -m venv --without-pip {_BASE}")
        # A copy of ours: to let `venv` install one takes seconds.
        site = next(self.path(_BASE).glob("lib/python*/site-packages"))
        shutil.copytree(Path(pip.__file__).parent, site / "pip")
        program = self.path(f"{_BASE}/bin/pip")
        program.write_text(f"#!{_BASE}/bin/python\nfrom pip._internal.cli.main import main\nraise SystemExit(main())\n")
        program.chmod(0o755)

    def command(self, *words: str, user: str = "", mode: str = "rw") -> list[str]:
        """Return the command that runs a program in the root, as a user of it."""
        uid, _, gid = (user or "0:0").partition(":")
        enter = ["unshare", "-m", "-U", f"--map-user={uid}", f"--map-group={gid}", "--keep-caps"]
        script = _ENTER.format(shown=" ".join(map(shlex.quote, _SHOWN)))
        env = [f"{name}={value}" for name, value in self.env.items()]
        return [*enter, "sh", "-c", script, "sh", str(self.folder), mode, *_NO_RIGHTS, "env", "-i", *env, *words]

    def run(self, script: str) -> None:
        """Carry out a `RUN`."""
        command = self.command("sh", "-ec", f"cd {self.workdir}; {script}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"RUN {script}:\n{done.stdout}{done.stderr}"

    def copy(self, source: Path, target: str) -> None:
        """Copy a file or a folder to where a `COPY` says."""
        to = self.path(target if target.startswith("/") else f"{self.workdir}/{target}")
        if source.is_dir():
            shutil.copytree(source, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            to = to / source.name if target.endswith("/") or to.is_dir() else to
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to)


def carry_out(stage: Stage, root: Root, context: Path, others: dict[str, Root]) -> None:
    """Carry out the steps of a stage; of others, `COPY --from` may take files."""
    for word, text in stage.steps:
        match word:
            case "ENV":
                pairs = (pair.split("=", 1) for pair in shlex.split(text))
                root.env.update({name: value.replace("$PATH", root.env["PATH"]) for name, value in pairs})
            case "WORKDIR":
                root.workdir = text
                root.path(text).mkdir(parents=True, exist_ok=True)
            case "RUN":
                root.run(text)
            case "COPY":
                *sources, target = text.split()
                named = sources.pop(0).removeprefix("--from=") if sources[0].startswith("--from=") else ""
                for source in sources:
                    root.copy(others[named].path(source) if named else context / source, target)
