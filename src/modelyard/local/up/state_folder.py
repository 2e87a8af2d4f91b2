"""The state folder of one-machine mode: where everything is kept, who runs in it, and what others may know of that.

One `modelyard up` at a time works in a folder. The kernel drops its lock however it ends.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.core.resources import Key
from modelyard.local.files import private_folder, try_lock, write_private
from modelyard.local.node.proxy.addresses import HostPort

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from modelyard.local.node.proxy.service_dns import ServiceAddresses

_LOCK: Final = "up.lock"
# Whoever only looks holds the lock for a moment.
_LOCK_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.05


class AlreadyUp(ModelyardError):
    """Another process works in the folder."""


class NotOurs(ModelyardError):
    """The folder holds something else."""


class UpRecord(Struct, frozen=True):
    """What a running `modelyard up` tells others."""

    pid: int
    assets: str = ""
    """The folder of the programs of the control plane, `kubectl` among them."""
    settled: bool = False
    """Whether everything that was asked for is ready, or known not to become so by itself."""


class StateFolder:
    """The state folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.logs = self.path / "logs"
        self.kubeconfig = self.path / "kubeconfig"
        self._lock = self.path / _LOCK
        self._record = self.path / "up.json"
        self._service_addresses = self.path / "places.json"

    def prepare(self) -> None:
        """Make the folder, for our eyes only. A folder with other things in it is left alone."""
        if self.path.is_dir() and not self._lock.exists() and any(self.path.iterdir()):
            raise NotOurs(f"{self.path} is not empty, and not a folder of Modelyard; name another one with --dir")
        private_folder(self.path)
        self._lock.touch(0o600)
        private_folder(self.logs)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the only one in the folder, for as long as the block lasts."""
        self.prepare()
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        try:
            if not _locked(descriptor, _LOCK_SECONDS):
                raise AlreadyUp(self._already_up())
            self.write_record(UpRecord(os.getpid()))
            yield
        finally:
            os.close(descriptor)

    def is_held(self) -> bool:
        """Whether a `modelyard up` works in the folder now."""
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
        """Let others know."""
        write_private(self._record, msgspec.json.encode(record))

    def read_record(self) -> UpRecord | None:
        """Return what the one who works in the folder tells; None when nobody does."""
        if not self.is_held():
            return None
        try:
            return msgspec.json.decode(self._record.read_bytes(), type=UpRecord)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def write_service_addresses(self, addresses: ServiceAddresses) -> None:
        """Let others know where Services are reached."""
        plain = {str(service): {str(port): at for port, at in ports.items()} for service, ports in addresses.items()}
        write_private(self._service_addresses, msgspec.json.encode(plain))

    def service_addresses(self) -> ServiceAddresses:
        """Return where Services are reached, as it was told last."""
        try:
            plain = msgspec.json.decode(self._service_addresses.read_bytes(), type=dict[str, dict[int, HostPort]])
        except (FileNotFoundError, msgspec.MsgspecError):
            return {}
        return {_key(name): ports for name, ports in plain.items()}

    def _already_up(self) -> str:
        record = self.read_record()
        who = f" (process {record.pid})" if record else ""
        return (
            f"Modelyard runs in {self.path} already{who}; look at it with `modelyard status`, change it with kubectl, "
            "stop it with `modelyard down`, or name another folder with --dir"
        )


def default_path(environ: Mapping[str, str], home: Path) -> Path:
    """Return where state is kept when nothing else is said: in the folder for data that the system has for users."""
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / "modelyard"
    # Also on macOS: scripts of pods meet paths of this folder, and the space in `Application Support` would split them.
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
