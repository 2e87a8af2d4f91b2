"""Of all sockets of the machine, those count that other machines could reach."""

from __future__ import annotations

import socket

from modelyard.local.node.process.listeners import beyond_loopback, listening_beyond_loopback
from modelyard.local.node.proxy.addresses import HostPort

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


def test_a_real_socket_is_found() -> None:
    with socket.socket() as here, socket.socket() as everywhere:
        here.bind(("127.0.0.1", 0))
        everywhere.bind(("0.0.0.0", 0))
        for each in (here, everywhere):
            each.listen()
        found = set(beyond_loopback().values())
        assert HostPort("0.0.0.0", everywhere.getsockname()[1]) in found
        assert here.getsockname()[1] not in {place.port for place in found}
