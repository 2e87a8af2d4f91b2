"""The state folder of one-machine mode: its lock, and the files by which other commands find a running `up`.

One `modelyard up` at a time runs in a folder. It holds a lock, which the kernel releases however the process ends, so a
record is only believed while the lock is held.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.core.resources import Key
from modelyard.home import home_folder
from modelyard.local.files import folder_size, private_folder, try_lock, write_private
from modelyard.local.node.proxy.addresses import HostPort

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from modelyard.local.node.proxy.service_dns import ServiceAddresses

_LOCK: Final = "up.lock"
# `is_held` takes the lock for a moment: an `up` that starts at that moment must try again.
_LOCK_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.05


class AlreadyUp(ModelyardError):
    """Another `modelyard up` runs in the folder."""


class NotOurs(ModelyardError):
    """The folder holds files that are not ours."""


class UpRecord(Struct, frozen=True):
    """What a running `modelyard up` tells other commands, in `up.json`."""

    pid: int
    assets: str = ""
    """The folder of the programs of the control plane, with `kubectl`; empty: not known yet."""
    door: str = ""
    """The one address for all models, as a base URL of OpenAI's API; empty: there is none, or not yet."""
    settled: bool = False
    """Whether all objects are ready, or known not to get ready by themselves."""


class StateFolder:
    """The state folder of one `modelyard up`."""

    def __init__(self, path: Path) -> None:
        # As the programs see it. By two spellings of one folder, the next start would not find what a killed one left.
        self.path = path.resolve()
        self.logs = self.path / "logs"
        self.kubeconfig = self.path / "kubeconfig"
        self.image_rules = self.path / "images.yaml"
        """A copy of the file that `--images` named last; it may be missing."""
        self._lock = self.path / _LOCK
        self._record = self.path / "up.json"
        self._service_addresses = self.path / "places.json"
        self._descriptor = -1
        """That of the lock, while this process holds it."""

    def hint(self, verb: str) -> str:
        """Return the command that does something with this folder, as messages show it: with `--dir` where needed."""
        usual = usual_path()
        is_usual = usual is not None and self.path == usual.resolve()
        where = "" if is_usual else f" --dir={shlex.quote(str(self.path))}"
        return f"`modelyard {verb}{where}`"

    def prepare(self) -> None:
        """Make the folder, readable by this user only; NotOurs when it exists and holds other files."""
        if self.path.is_dir() and not self._lock.exists() and any(self.path.iterdir()):
            raise NotOurs(f"{self.path} is not empty, and not a folder of Modelyard; name another one with --dir")
        private_folder(self.path)
        self._lock.touch(0o600)
        private_folder(self.logs)

    def is_prepared(self) -> bool:
        """Whether the folder is one of `modelyard up`."""
        return self._lock.exists()

    def keep_image_rules(self, file: Path) -> None:
        """Keep a copy of the rules for images: pods that they run are started again by every later `up`."""
        write_private(self.image_rules, file.read_bytes())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock of the folder while the block lasts; AlreadyUp when another process holds it."""
        self.prepare()
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        try:
            if not _locked(descriptor, _LOCK_SECONDS):
                raise AlreadyUp(self._already_up())
            # At once: the record of the last `up` would be believed now that the lock is held.
            self.write_record(UpRecord(os.getpid()))
            self._descriptor = descriptor
            yield
        finally:
            self._descriptor = -1
            os.close(descriptor)

    def is_in_place(self) -> bool:
        """Whether the folder that this process holds is where it was, and neither removed nor moved."""
        try:
            return os.path.samestat(self._lock.stat(), os.fstat(self._descriptor))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            # A disk in trouble, or rights that were taken away: no proof that the folder has gone.
            return True

    def purge(self) -> int:
        """Remove the folder, and return how many bytes its files had. NotOurs when it is none of Modelyard."""
        if not self._lock.exists():
            raise NotOurs(f"{self.path} is not a folder of Modelyard, so nothing is removed; correct --dir")
        # Held: an `up` that starts meanwhile would lose its files one by one.
        with self.held():
            size = folder_size(self.path)
            for entry in [each for each in self.path.iterdir() if each != self._lock]:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink(missing_ok=True)
            # Last: without it, what is left after a crash would be a folder that is not ours.
            self._lock.unlink()
            self.path.rmdir()
        return size

    def expect_free(self) -> None:
        """Raise AlreadyUp if a `modelyard up` runs in the folder: its logs and its settings must stay as they are."""
        if self.is_held():
            raise AlreadyUp(self._already_up())

    def is_held(self) -> bool:
        """Whether a `modelyard up` runs in the folder now."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def write_record(self, record: UpRecord) -> None:
        """Replace the record of the folder."""
        write_private(self._record, msgspec.json.encode(record))

    def read_record(self) -> UpRecord | None:
        """Return the record of the `modelyard up` that runs in the folder; None: none runs."""
        if not self.is_held():
            return None
        try:
            return msgspec.json.decode(self._record.read_bytes(), type=UpRecord)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def write_service_addresses(self, addresses: ServiceAddresses) -> None:
        """Write the addresses of Services, for `modelyard status` in another process."""
        plain = {str(service): {str(port): at for port, at in ports.items()} for service, ports in addresses.items()}
        write_private(self._service_addresses, msgspec.json.encode(plain))

    def service_addresses(self) -> ServiceAddresses:
        """Return the addresses of Services as they were written last; empty: not yet."""
        try:
            plain = msgspec.json.decode(self._service_addresses.read_bytes(), type=dict[str, dict[int, HostPort]])
        except (FileNotFoundError, msgspec.MsgspecError):
            return {}
        return {_key(name): ports for name, ports in plain.items()}

    def _already_up(self) -> str:
        record = self.read_record()
        who = f" (process {record.pid})" if record else ""
        return (
            f"Modelyard runs in {self.path} already{who}; look at it with {self.hint('status')}, change it with "
            f"kubectl, stop it with {self.hint('down')}, or name another folder with --dir"
        )


def usual_path() -> Path | None:
    """Return the state folder of this user that is meant without `--dir`; None: the user has no home folder."""
    home = home_folder()
    if home is None and not os.environ.get("XDG_DATA_HOME"):
        return None
    return default_path(os.environ, home or Path())


def default_path(environ: Mapping[str, str], home: Path) -> Path:
    """Return the default state folder: below `XDG_DATA_HOME`, or below `~/.local/share`."""
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / "modelyard"
    # Also on macOS: scripts in pods use paths below it, and the space in `Application Support` would split them.
    return home / ".local" / "share" / "modelyard"


def _locked(descriptor: int, patience: float) -> bool:
    give_up = time.monotonic() + patience
    while not try_lock(descriptor):
        if time.monotonic() > give_up:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _key(text: str) -> Key:
    namespace, _, name = text.rpartition("/")
    return Key(namespace, name)
