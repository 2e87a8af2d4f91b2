"""The settings of a daemon, and the folder in which it keeps its state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.host.access import NOT_PUBLIC, Network
from modelyard.local.files import write_private

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_PORT: Final = 11434
DRAIN_SECONDS: Final = 30.0
ALL_ADDRESSES: Final = "::"
"""All addresses of a machine, those of IPv4 as well."""
ALL_IPV4: Final = "0.0.0.0"  # noqa: S104 - it is there to be called by other machines, of allowed networks


class NotStarted(ModelyardError):
    """No daemon was ever started in a state folder."""


class Tls(Struct, frozen=True):
    """The files of a server certificate and its key."""

    certificate: Path
    key: Path


class HostSettings(Struct, frozen=True):
    """How a daemon listens, whom it serves, and what models may take."""

    state: Path
    host: str = ALL_IPV4
    port: int = DEFAULT_PORT
    token_file: Path | None = None
    """None: a token is made in the state folder."""
    networks: tuple[Network, ...] = NOT_PUBLIC
    tls: Tls | None = None
    budget: int | None = None
    """The bytes that models may take together; None: by the memory of the machine."""
    evicts: bool = False
    engines: Path | None = None
    roots: tuple[Path, ...] = ()
    """The folders that local sources may be in."""
    drain_seconds: float = DRAIN_SECONDS

    @property
    def recorded_address(self) -> str:
        """The address as a record has it: the one to listen at, or `::`; empty: all of IPv4."""
        return "" if self.host == ALL_IPV4 else self.host

    @property
    def token(self) -> Path:
        """The file of the token."""
        return self.token_file or self.state / "token"


class HostRecord(Struct, frozen=True):
    """What `modelyard host join` has to know of the daemon of a state folder."""

    port: int
    token_file: str
    host: str = ""
    """The address that it listens at, or `::` for all of them; empty: all of IPv4."""
    is_tls: bool = False


def write_host_record(state: Path, record: HostRecord) -> None:
    """Replace the record of a state folder."""
    write_private(state / "host.json", msgspec.json.encode(record))


def read_host_record(state: Path) -> HostRecord:
    """Return the record of a state folder; `NotStarted` when there is none."""
    try:
        return msgspec.json.decode((state / "host.json").read_bytes(), type=HostRecord)
    except (OSError, msgspec.MsgspecError) as error:
        raise NotStarted(
            f"no daemon was started in {state}; start `modelyard host` first, or name its --dir"
        ) from error


def default_state(environ: Mapping[str, str], home: Path) -> Path:
    """Return the state folder that is used when none is named: one in the data folder of the user."""
    data = environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data else home / ".local" / "share") / "modelyard-host"
