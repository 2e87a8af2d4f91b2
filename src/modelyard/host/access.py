"""Who may call a daemon: networks for everything, and a bearer token for `/admin`."""

from __future__ import annotations

import hmac
import secrets
from functools import lru_cache
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final

from modelyard.core.errors import ModelyardError
from modelyard.host.refusals import Refusal
from modelyard.host.wire import Code
from modelyard.local.files import private_folder, write_private

if TYPE_CHECKING:
    from pathlib import Path

Network = IPv4Network | IPv6Network

_NOT_PUBLIC: Final = (
    "127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16",
    "::1/128", "fc00::/7", "fe80::/10",
)  # fmt: skip
NOT_PUBLIC: Final[tuple[Network, ...]] = tuple(map(ip_network, _NOT_PUBLIC))
"""The networks of homes, offices, clusters and tailnets, and this machine: they may call unless told otherwise."""

_SCHEME: Final = "bearer "
_CLIENTS: Final = 1024


class TokenUnreadable(ModelyardError):
    """The file of the token is missing, empty or not for us."""


class Access:
    """The networks and the token of a daemon."""

    def __init__(self, networks: tuple[Network, ...], token_file: Path) -> None:
        self._networks, self._token_file = networks, token_file
        # The same few clients ask all the time.
        self._is_allowed = lru_cache(_CLIENTS)(self._is_of_network)

    def check_network(self, remote: str | None) -> None:
        """Refuse a client of a network that is not allowed."""
        if remote is None or not self._is_allowed(remote):
            message = f"{remote} is of no network that may call; allow the network of the nodes with --allow"
            raise Refusal(HTTPStatus.FORBIDDEN, Code.NETWORK_NOT_ALLOWED, message)

    def check_token(self, header: str) -> None:
        """Refuse a client whose Authorization header does not hold the token.

        The file is read every time, so that the token can be replaced while the daemon runs.
        """
        shown = header[len(_SCHEME) :].strip() if header.lower().startswith(_SCHEME) else ""
        # As it came: a header may hold bytes that are no text.
        if not hmac.compare_digest(shown.encode(errors="surrogateescape"), read_token(self._token_file).encode()):
            message = "the bearer token is missing or wrong; `modelyard host join` prints the right one"
            raise Refusal(HTTPStatus.UNAUTHORIZED, Code.UNAUTHORIZED, message)

    def _is_of_network(self, remote: str) -> bool:
        address = ip_address(remote)
        # An IPv4 client of a socket for both versions.
        plain = (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
        return any(plain in network for network in self._networks)


def read_token(file: Path) -> str:
    """Return the token of a file; `TokenUnreadable` when there is none. Line ends at its end do not count."""
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenUnreadable(f"the token cannot be read from {file}: {error}") from error
    if not token:
        raise TokenUnreadable(f"{file} is empty; write the token into it")
    return token


def make_token(file: Path) -> None:
    """Write a new token to a file that does not exist yet."""
    if not file.exists():
        private_folder(file.parent)
        write_private(file, secrets.token_urlsafe(32).encode() + b"\n")
