"""DNS for `ssrf_guard`: a resolver that can be cancelled.

`getaddrinfo` of the system runs in threads and cannot be. A name server that does not answer would keep those threads
busy, and with them every other lookup and the end of the process.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiodns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host; the port is a hint. OSError: it has none."""

_TRY_SECONDS: Final = 2.0
_TRIES: Final = 2


@asynccontextmanager
async def resolver(servers: Sequence[str] | None = None) -> AsyncIterator[Resolve]:
    """Yield a resolver that works until the block ends; None: with /etc/hosts and the name servers of the machine."""
    names = aiodns.DNSResolver(servers, timeout=_TRY_SECONDS, tries=_TRIES)

    async def resolve(host: str, port: int) -> list[str]:
        try:
            found = await names.getaddrinfo(host, socket.AF_UNSPEC, port, type=socket.SOCK_STREAM)
        except (aiodns.error.DNSError, ValueError) as error:
            raise OSError(f"no address: {error}") from error
        return list(dict.fromkeys(node.addr[0].decode() for node in found.nodes))

    try:
        yield resolve
    finally:
        await names.close()
