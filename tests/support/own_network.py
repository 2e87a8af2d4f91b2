"""A network of its own for a process: with its own loopback device, which may have any addresses."""

from __future__ import annotations

import asyncio
import fcntl
import signal
import socket
import struct
import sys
from typing import TYPE_CHECKING

from tests.support.operators import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNSHARE = ("unshare", "-rn")
"""Runs a command in a network of its own, as its administrator. An ordinary user needs user namespaces for it."""
_REFUSED = (
    "this test needs a network namespace, which this system refuses: run it as root, or allow user namespaces "
    "(user.max_user_namespaces, kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns)"
)

REACHABLE = "192.0.2.7"
"""An address to bring up, which is then the own address of the network."""
_ELSEWHERE = "192.0.2.1"

_SET_FLAGS, _SET_ADDRESS = 0x8914, 0x8916
_UP = 1


async def run_in_own_network(seconds: float, module: str, *args: str) -> None:
    """Run a module of the tests in a network of its own, and fail with what it printed if it does."""
    process = await asyncio.create_subprocess_exec(
        *(*_UNSHARE, sys.executable, "-m", module, *args),
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            await process.wait()
    said = output.decode()
    assert not said.startswith("unshare: "), f"{_REFUSED}\n{said}"
    assert process.returncode == 0, said


def own_address() -> str | None:
    """Return an IPv4 address of this machine that is not loopback; None: it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the kernel only says by which of its addresses this one would be reached.
            probe.connect((_ELSEWHERE, 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])


def bring_up_ipv6(address: str) -> None:
    """Bring loopback up with an IPv6 address, whose network of 32 bits is then the only one that is reached."""
    bring_up(())
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sIi", socket.inet_pton(socket.AF_INET6, address), 32, socket.if_nametoindex("lo"))
        fcntl.ioctl(any_socket, _SET_ADDRESS, request)


def bring_up(addresses: Iterable[str]) -> None:
    """Bring loopback up, with these IPv4 addresses besides 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))
        for number, address in enumerate(addresses):
            request = struct.pack("16sHH4s8x", f"lo:{number}".encode(), socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(any_socket, _SET_ADDRESS, request)
