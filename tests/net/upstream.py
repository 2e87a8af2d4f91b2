"""What tests of visits share: a guard that lets loopback through under made-up names, and a count of lookups."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING

from modelyard.net.addresses import permitted
from modelyard.net.ssrf_guard import Guard

if TYPE_CHECKING:
    import ssl

LOOPBACK = permitted(["127.0.0.1"])


class Names:
    """A name server: says what it is told to, one entry for each lookup of a name, the last one again and again."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self._answers = {f"{name}.example": list(given) for name, given in answers.items()}
        self.lookups: list[str] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        self.lookups.append(host)
        with suppress(ValueError):
            return [str(ip_address(host))]
        given = self._answers.get(host.rstrip("."))
        if given is None:
            raise OSError("no such host")
        return given.pop(0) if len(given) > 1 else given[0]


def guard(names: Names | None = None, *, tls: ssl.SSLContext | None = None, seconds: float = 10.0) -> Guard:
    """Loopback is allowed, and `files.example` is there."""
    known = names or Names(files=[["127.0.0.1"]])
    return Guard(known.resolve, LOOPBACK, tls, seconds)
