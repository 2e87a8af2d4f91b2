"""TCP sockets that listen, asked of the kernel by netlink, as `ss -ltn` does.

`listeners` calls it once a second. Tables of /proc/net hold every connection as well, and without any the kernel still
walks through all of its hash table for each read: several milliseconds on a machine with much memory.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST_AND_DUMP: Final = 0x301
_ERROR, _DONE = 2, 3
_LISTENING: Final = 1 << 10
_LONGEST: Final = 2**16
_SECONDS: Final = 1.0
"""How long the kernel may take. It answers at once; without a limit, a thread would wait for one that does not."""
# struct nlmsghdr: length, type, flags, sequence, port.
_HEADER: Final = struct.Struct("=IHHII")
# struct inet_diag_req_v2: family, protocol, extensions, padding, states; then an empty struct inet_diag_sockid.
_REQUEST: Final = struct.Struct("=BBBxI48x")
# struct inet_diag_msg: family, three bytes, the port and the address of the socket, and what follows up to its inode.
_MESSAGE: Final = struct.Struct("!B3xH2x16s")
_INODE: Final = struct.Struct("=68xI")


def listening_sockets() -> Iterator[tuple[str, Address, int]]:
    """Yield inode, address and port of each TCP socket that listens. OSError: this kernel does not tell."""
    for family in (socket.AF_INET, socket.AF_INET6):
        yield from map(read_message, _answers(family))


def read_message(message: bytes) -> tuple[str, Address, int]:
    """Return inode, address and port of a struct inet_diag_msg."""
    family, port, address = _MESSAGE.unpack_from(message)
    (inode,) = _INODE.unpack_from(message)
    return str(inode), ipaddress.ip_address(address[:4] if family == socket.AF_INET else address), port


def _answers(family: int) -> Iterator[bytes]:
    length = _HEADER.size + _REQUEST.size
    header = _HEADER.pack(length, _BY_FAMILY, _REQUEST_AND_DUMP, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(_SECONDS)
        kernel.send(header + _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _LISTENING))
        while True:
            for kind, body in _messages(kernel.recv(_LONGEST)):
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    raise OSError(code, os.strerror(code))
                yield body


def _messages(text: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start < len(text):
        length, kind, *_ = _HEADER.unpack_from(text, start)
        yield kind, text[start + _HEADER.size : start + length]
        # Messages begin at multiples of four bytes.
        start += (length + 3) & ~3
