"""Of all sockets of the machine, those count that other machines could reach."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from modelyard.local.node.process.listeners import beyond_loopback, listening_beyond_loopback
from modelyard.local.node.process.socket_diag import listening_sockets, read_message
from modelyard.local.node.proxy.addresses import HostPort

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = """\
   0: 00000000:46A2 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 111 1 0 100 0 0 10 0
   1: 0100007F:46A3 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 222 1 0 100 0 0 10 0
   2: 0100617F:46A3 0100617F:9C40 01 00000000:00000000 00:00000000 00000000  1000 0 333 1 0 100 0 0 10 0
   3: 00000000000000000000000000000000:46A4 00000000000000000000000000000000:0000 0A 0:0 00:0 0  1000 0 444 1 0
   4: 00000000000000000000000001000000:46A5 00000000000000000000000000000000:0000 0A 0:0 00:0 0  1000 0 555 1 0
   5: 0000000000000000FFFF00000100007F:46A6 00000000000000000000000000000000:0000 0A 0:0 00:0 0  1000 0 666 1 0
"""


def test_loopback_and_connections_do_not_count() -> None:
    found = listening_beyond_loopback(TABLE.splitlines())
    assert found == {"111": HostPort("0.0.0.0", 18082), "444": HostPort("::", 18084)}


@pytest.fixture
def listening() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A socket that listens on loopback, and one that listens everywhere."""
    with socket.create_server(("127.0.0.1", 0)) as here, socket.create_server(("0.0.0.0", 0)) as everywhere:
        yield here, everywhere


def test_a_real_socket_is_found(listening: tuple[socket.socket, socket.socket]) -> None:
    here, everywhere = listening
    found = set(beyond_loopback().values())
    assert HostPort("0.0.0.0", everywhere.getsockname()[1]) in found
    assert here.getsockname()[1] not in {place.port for place in found}


def test_the_kernel_tells_by_netlink_what_its_tables_say(listening: tuple[socket.socket, socket.socket]) -> None:
    told = {(inode, str(host), port) for inode, host, port in listening_sockets()}
    for each in listening:
        assert (str(os.fstat(each.fileno()).st_ino), *each.getsockname()) in told
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listed = {row[9] for row in rows if row[3] == "0A"}
    assert {str(os.fstat(each.fileno()).st_ino) for each in listening} <= listed & {inode for inode, *_ in told}


def test_an_address_of_ipv6_is_read_whole() -> None:
    place = struct.pack("!HH", 8080, 0) + ipaddress.ip_address("fd00::7").packed + bytes(28)
    message = bytes([socket.AF_INET6, 10, 0, 0]) + place + struct.pack("=5I", 0, 0, 0, 1000, 4711)
    assert read_message(message) == ("4711", ipaddress.ip_address("fd00::7"), 8080)
