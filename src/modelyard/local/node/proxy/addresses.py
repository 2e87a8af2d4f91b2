"""Loopback addresses: one of its own for every pod, so that two may use the same port, and places for Services.

Two addresses stand for one pod. It listens on the one in 127.97.0.0/16, which on Linux any program may use. The cluster
is shown its twin in 240.97.0.0/16, which leads nowhere: the API server takes no loopback address for an endpoint.
Where 127.0.0.1 is the only loopback address (macOS), pods and Services get that one and a port of their own instead.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from modelyard.core.errors import ModelyardError
from modelyard.local.ports import free_ports, is_free

if TYPE_CHECKING:
    from collections.abc import Iterable

MANY: Final = sys.platform == "linux"
"""Whether every address of 127.0.0.0/8 can be listened on, or only the first."""

_LOCALHOST: Final = "127.0.0.1"
_OURS: Final = "127.97."
_SHOWN: Final = "240.97."
# The first and the last address of the range are left out: many programs take them for a network and a broadcast.
_SLOTS: Final = 2**16 - 2

# Between the ports of the control plane and those that the cluster gives to Services of type NodePort.
_SERVICE_PORTS: Final = range(20_000, 30_000)
_SERVICE_TRIES: Final = 50
_INSTEAD: Final = 30_000


class NoFreeAddress(ModelyardError):
    """There are more pods than addresses."""


class HostPort(NamedTuple):
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PodAddress(Struct, frozen=True):
    """Where one pod listens, and what the cluster is told about it."""

    ip: str
    """What the programs of the pod must listen on."""
    port: int | None
    """None: whatever port a program wants. Otherwise the only one that it may use."""
    shown: str
    """The `podIP` of the pod's status."""

    def has(self, place: HostPort) -> bool:
        """Whether it is this pod that listens there."""
        return place.host == self.ip and self.port in (None, place.port)


class PodAddresses:
    """The addresses of the pods of one node. They depend on the pods' UIDs, so a restart seldom changes one."""

    def __init__(self, *, many: bool = MANY) -> None:
        self._many = many
        self._pods: dict[str, PodAddress] = {}
        self._shown: dict[str, PodAddress] = {}

    def take(self, uid: str, ports: Iterable[int] = ()) -> PodAddress:
        """Return the address of a pod that wants to listen on these ports; asking again does not change it."""
        address = self._pods.get(uid)
        if address is None:
            address = self._pods[uid] = self._free(uid, tuple(ports))
            self._shown[address.shown] = address
        return address

    def give_back(self, uid: str) -> None:
        """Free the address of a pod that is gone. A pod that has none is fine."""
        address = self._pods.pop(uid, None)
        if address is not None:
            del self._shown[address.shown]

    def where(self, endpoint: HostPort) -> HostPort | None:
        """Return where an endpoint of the cluster really listens; None: its pod is not here."""
        if not endpoint.host.startswith(_SHOWN):
            return endpoint
        address = self._shown.get(endpoint.host)
        if address is not None:
            return HostPort(address.ip, address.port or endpoint.port)
        return HostPort(_twin(endpoint.host), endpoint.port) if self._many else None

    def _free(self, uid: str, ports: tuple[int, ...]) -> PodAddress:
        start = _number(uid)
        for step in range(_SLOTS):
            high, low = divmod((start + step) % _SLOTS + 1, 256)
            shown = f"{_SHOWN}{high}.{low}"
            if shown not in self._shown:
                return self._address(shown, ports)
        raise NoFreeAddress(f"all {_SLOTS} pod addresses of this machine are taken; delete pods")

    def _address(self, shown: str, ports: tuple[int, ...]) -> PodAddress:
        if self._many:
            # A program of this machine that listens on all addresses has its port on every one of them.
            taken = any(not is_free(port, _twin(shown)) for port in ports)
            return PodAddress(ip=_twin(shown), port=free_ports(1)[0] if taken else None, shown=shown)
        return PodAddress(ip=_LOCALHOST, port=free_ports(1)[0], shown=shown)


def listen_choices(cluster_ip: str, port: int, *, many: bool = MANY) -> list[HostPort]:
    """Return where a port of a Service may listen, best first, in the same order at every start.

    The second choice is for ports that need the rights of root (80 becomes 30080), and for those that a program which
    listens on all addresses of the machine has taken.
    """
    if many:
        instead = port + _INSTEAD if port + _INSTEAD < 2**16 else port - _INSTEAD
        return [HostPort(cluster_ip, port), HostPort(cluster_ip, instead)]
    start = _number(str(HostPort(cluster_ip, port)))
    numbers = (_SERVICE_PORTS[(start + step) % len(_SERVICE_PORTS)] for step in range(_SERVICE_TRIES))
    return [HostPort(_LOCALHOST, number) for number in numbers]


def _twin(shown: str) -> str:
    return _OURS + shown.removeprefix(_SHOWN)


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:4], "big")
