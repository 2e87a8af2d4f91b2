"""The loopback addresses of pods and Services: the pod network of this node.

The workers of pods take addresses from it, and the proxy asks where an endpoint really listens. Each pod has two
addresses. Its processes listen on the one in 127.97.0.0/16, which on Linux any program may use, so that two pods may
use the same port. The cluster is shown its twin in 240.97.0.0/16, which is routed nowhere: the API server accepts no
loopback address as an endpoint. Where 127.0.0.1 is the only loopback address (macOS), pods and Services share it, each
with a port of its own.
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
"""Whether any address of 127.0.0.0/8 can be listened on, or only 127.0.0.1."""

_LOCALHOST: Final = "127.0.0.1"
_OURS: Final = "127.97."
_SHOWN: Final = "240.97."
POD_NETWORK: Final = f"{_OURS}0.0/16"
"""Where processes of pods listen, if the machine has more than one loopback address."""
SHOWN_NETWORK: Final = f"{_SHOWN}0.0/16"
"""The addresses that the cluster is shown instead, in the same order."""
# Without the first and last address of the range: many programs take them for those of a network and a broadcast.
_SLOTS: Final = 2**16 - 2

# Below the node ports of the cluster (30000 to 32767).
_SERVICE_PORTS: Final = range(20_000, 30_000)
_SERVICE_TRIES: Final = 50
_LAST_CHOICES: Final = 8
_INSTEAD: Final = 30_000


class NoFreeAddress(ModelyardError):
    """This node has more pods than addresses."""


class HostPort(NamedTuple):
    """An IP address and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PodAddress(Struct, frozen=True):
    """The two addresses of one pod: where it listens, and what the cluster is shown."""

    ip: str
    """The loopback address on which the processes of the pod listen."""
    port: int | None
    """The only port that the pod may use; None: any."""
    shown: str
    """The `podIP` in the status of the pod."""

    def has(self, place: HostPort) -> bool:
        """Whether it is this pod that listens at a loopback address."""
        return place.host == self.ip and self.port in (None, place.port)


class PodAddresses:
    """The addresses of all pods of one node. They follow from the UIDs of pods, so a restart of the node keeps most."""

    def __init__(self, *, many: bool = MANY) -> None:
        self._many = many
        self._pods: dict[str, PodAddress] = {}
        self._shown: dict[str, PodAddress] = {}

    def take(self, uid: str, ports: Iterable[int] = ()) -> PodAddress:
        """Return the address of a pod that listens on these ports; the same one until it is given back."""
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
        """Return the loopback address behind an endpoint of an EndpointSlice; None: its pod is not on this node."""
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
            # A program of this machine that listens on 0.0.0.0 holds its port on every loopback address.
            taken = any(not is_free(port, _twin(shown)) for port in ports)
            return PodAddress(ip=_twin(shown), port=free_ports(1)[0] if taken else None, shown=shown)
        return PodAddress(ip=_LOCALHOST, port=free_ports(1)[0], shown=shown)


def listen_choices(cluster_ip: str, port: int, *, many: bool = MANY) -> list[HostPort]:
    """Return the addresses on which a port of a Service may listen, best first and in the same order at every start.

    The second choice is for ports that only root may use (80 becomes 30080), and for those that another program holds
    on all addresses of the machine. The others are for when it holds both.
    """
    start = _number(str(HostPort(cluster_ip, port)))
    numbers = [_SERVICE_PORTS[(start + step) % len(_SERVICE_PORTS)] for step in range(_SERVICE_TRIES)]
    if not many:
        return [HostPort(_LOCALHOST, number) for number in numbers]
    instead = port + _INSTEAD if port + _INSTEAD < 2**16 else port - _INSTEAD
    return [HostPort(cluster_ip, number) for number in (port, instead, *numbers[:_LAST_CHOICES])]


def _twin(shown: str) -> str:
    return _OURS + shown.removeprefix(_SHOWN)


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:4], "big")
