"""Free loopback ports, which stay the same from one start to the next. The control plane and the node use it."""

from __future__ import annotations

import random
import socket
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import msgspec

from modelyard.core.errors import ModelyardError
from modelyard.local.files import write_private

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

# Below the ephemeral ports of Linux: an outgoing connection could take one of those between our check and the listen.
_RANGE = range(15_000, 32_000)
_TRIES = 200

PortNumber = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
"""A TCP port, as a file may hold it."""


class NoFreePort(ModelyardError):
    """Too few loopback ports are free."""


def keep_ports(file: Path, names: tuple[str, ...]) -> dict[str, int]:
    """Return a free port for each name, and store them: that of the last start, unless another program uses it."""
    kept = _kept(file)
    fresh = iter(free_ports(len(names), but=kept.values()))
    ports = {name: kept[name] if name in kept and is_free(kept[name]) else next(fresh) for name in names}
    write_private(file, msgspec.json.encode(ports))
    return ports


def _kept(file: Path) -> dict[str, int]:
    """Return the ports of the last start; empty: there is no file, or a damaged one. Others do as well."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, PortNumber])
    except (FileNotFoundError, msgspec.MsgspecError):
        return {}


def free_ports(count: int, but: Collection[int] = ()) -> list[int]:
    """Return different ports of 127.0.0.1 that no program uses, none of them in `but`."""
    # At random: two control planes that start at the same time would choose the same ones in order.
    drawn = random.SystemRandom().sample(_RANGE, _TRIES)
    free = list(islice((port for port in drawn if port not in but and is_free(port)), count))
    if len(free) < count:
        raise NoFreePort(f"fewer than {count} of {_TRIES} loopback ports are free; end the programs that hold them")
    return free


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a program could bind this port of a loopback address now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
