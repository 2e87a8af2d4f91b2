"""Free loopback ports, which stay the same from one start to the next. The control plane and the node use it."""

from __future__ import annotations

import errno
import os
import random
import socket
import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from modelyard.core.errors import ModelyardError
from modelyard.local.files import write_private

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

# Below the ephemeral ports of Linux: an outgoing connection could take one of those between our check and the listen.
_RANGE = range(15_000, 32_000)
_TRIES = 200
_CLAIMS: Final[dict[int, int]] = {}
"""The ports that this process has chosen last, and the open file that claims each. See `_claim`."""
_MOST_CLAIMS: Final = 64
"""By the time that so many more were chosen, the program that was to listen on a port does."""

PortNumber = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
"""A TCP port, as a file may hold it."""


class NoFreePort(ModelyardError):
    """Too few loopback ports are free."""


def keep_ports(file: Path, names: tuple[str, ...]) -> dict[str, int]:
    """Return a free port for each name, and store them: that of the last start, unless another program uses it."""
    kept = _kept(file)
    fresh = iter(free_ports(len(names), but=kept.values()))
    ports = {name: kept[name] if name in kept and take_port(kept[name]) else next(fresh) for name in names}
    write_private(file, msgspec.json.encode(ports))
    return ports


def take_port(port: int) -> bool:
    """Take a port for a program that is about to listen, and return whether that was possible.

    It is not while a program listens there, or another process has taken it for one of its own.
    """
    return is_free(port) and _claim(port)


def _kept(file: Path) -> dict[str, int]:
    """Return the ports of the last start; empty: there is no file, or a damaged one. Others do as well."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, PortNumber])
    except (FileNotFoundError, msgspec.MsgspecError):
        return {}


def free_ports(count: int, but: Collection[int] = ()) -> list[int]:
    """Return different ports of 127.0.0.1 that no program uses, none of them in `but`."""
    # At random: two control planes that start at the same time would choose the same ones in order.
    drawn = random.SystemRandom().sample(_RANGE, count + _TRIES)
    unused = (port for port in drawn if port not in but and port not in _CLAIMS)
    free = list(islice(filter(take_port, unused), count))
    if len(free) < count:
        raise NoFreePort(f"fewer than {count} of {len(drawn)} loopback ports are free; end the programs that hold them")
    return free


def _claim(port: int) -> bool:
    """Claim a port for this process, and return whether that was possible: not while another process claims it.

    A port is free until its program listens, which may be seconds later; so two starts at once could choose the same.
    A claim is an abstract socket, which Linux takes back from a process that ends. Elsewhere there are no claims.
    """
    if port in _CLAIMS or sys.platform != "linux":
        return True
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0modelyard-port-{port}")
    except OSError as error:
        claim.close()
        return error.errno != errno.EADDRINUSE
    _CLAIMS[port] = claim.detach()
    if len(_CLAIMS) > _MOST_CLAIMS:
        os.close(_CLAIMS.pop(next(iter(_CLAIMS))))
    return True


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a program could bind this port of a loopback address now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
