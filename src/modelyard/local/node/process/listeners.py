"""Which containers listen beyond loopback, where other machines reach them and no other pod can have the port.

`pod_workers` asks once a second. Linux only: elsewhere no container is found.
"""

from __future__ import annotations

import ipaddress
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modelyard.local.node.process import procfs
from modelyard.local.node.process.reaper import CONTAINER_MARK
from modelyard.local.node.process.socket_diag import listening_sockets
from modelyard.local.node.proxy.addresses import HostPort

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from modelyard.local.node.process.socket_diag import Address

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTEN: Final = "0A"
_WORD: Final = 8
_SOCKET: Final = "socket:["

Sockets = dict[str, HostPort]
"""Addresses of sockets by inode."""


def beyond_loopback() -> Sockets:
    """Return all TCP sockets of this machine that listen on an address which is not a loopback one."""
    with suppress(OSError, AttributeError):  # a kernel without it, and Python elsewhere than on Linux
        return _beyond_loopback(listening_sockets())
    found: Sockets = {}
    for table in _TABLES:
        with suppress(OSError):
            found |= listening_beyond_loopback(table.read_text().splitlines()[1:])
    return found


def listening_beyond_loopback(lines: Iterable[str]) -> Sockets:
    """Return those sockets of lines of /proc/net/tcp or tcp6."""
    fields = (line.split() for line in lines)
    listening = ((row[9], row[1].partition(":")) for row in fields if row[3] == _LISTEN)
    return _beyond_loopback((inode, _address(host), int(port, 16)) for inode, (host, _, port) in listening)


def _beyond_loopback(sockets: Iterable[tuple[str, Address, int]]) -> Sockets:
    places = ((inode, getattr(host, "ipv4_mapped", None) or host, port) for inode, host, port in sockets)
    return {inode: HostPort(str(host), port) for inode, host, port in places if not host.is_loopback}


def _address(text: str) -> Address:
    # The kernel prints each 32 bits as a number, in the byte order of the machine.
    words = [text[start : start + _WORD] for start in range(0, len(text), _WORD)]
    return ipaddress.ip_address(b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words))


def listening_containers(node_mark: str, sockets: Mapping[str, HostPort]) -> dict[str, list[HostPort]]:
    """Return which of these sockets each container of a node holds; containers are named as in `CONTAINER_MARK`."""
    found: defaultdict[str, set[HostPort]] = defaultdict(set)
    # By their marks, and not as children of the container: a server that has forked away is a child of no one of ours.
    for pid in procfs.pids_with(node_mark):
        held = {sockets[inode] for inode in _inodes(pid) if inode in sockets}
        if held and (container := procfs.variable(pid, CONTAINER_MARK)):
            found[container] |= held
    return {container: sorted(places) for container, places in found.items()}


def _inodes(pid: int) -> Iterator[str]:
    # The process, or one of its descriptors, may be gone before it is read.
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith(_SOCKET):
                    yield target.removeprefix(_SOCKET).removesuffix("]")
