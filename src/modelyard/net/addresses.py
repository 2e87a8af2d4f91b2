"""The address policy of `ssrf_guard`: which addresses the operator dials for URLs that users wrote.

Pure: no lookups. Public addresses may be dialled, all others only if an administrator has named them. The metadata
services of clouds give credentials to every caller; they are never dialled, whatever has been named. `agent_card` asks
here, too: for which hosts an agent may name to its clients.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Own lists, because what `ipaddress` calls global differs from one Python to the next.
_NOT_PUBLIC_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by the customers of a provider
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_UNICAST_V6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_V6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments; Teredo, which wraps IPv4, is one of them
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)
_METADATA: Final = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # most clouds
        "169.254.170.2",  # AWS, for containers
        "169.254.170.23",  # AWS, for pods
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS, for pods
        "fd20:ce::254",  # Google
        "168.63.129.16",  # Azure; a public address by its looks
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
    )
)

# What a client in another pod cannot reach under this address, or should not: itself, its node, many hosts at once.
_NOT_OTHERS: Final = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/128",
        "::1/128",
        "fe80::/10",
        "ff00::/8",
    )
)
_METADATA_NAMES: Final = frozenset(
    {"metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"}
)

# Networks whose addresses hold an IPv4 address in their last 32 bits: mapped, compatible, NAT64.
_IPV4_LAST: Final = tuple(IPv6Network(text) for text in ("::ffff:0:0/96", "::/96", "64:ff9b::/96"))
_6TO4: Final = IPv6Network("2002::/16")
# The last 64 bits of an ISATAP address: this, and an IPv4 address. One bit of it says whether that one is unique.
_ISATAP: Final = 0x00005EFE
_ISATAP_UNIQUE_BIT: Final = 0x02000000

# The last label begins with a letter: what ends in a number is an address, however it is written.
_NAME: Final = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z][a-z0-9-]{0,62}")


class Permitted(Struct, frozen=True):
    """Hosts and networks that may be dialled although they are not public: `--allowed-remote-hosts`."""

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()


def permitted(entries: Iterable[str]) -> Permitted:
    """Read a list of host names, addresses and CIDRs; ValueError names the entry that is none of these."""
    names, networks = set[str](), list[Network]()
    for entry in entries:
        text = plain_name(entry.strip())
        if _NAME.fullmatch(text):
            names.add(text)
        else:
            networks.append(_network(text, entry))
    return Permitted(frozenset(names), tuple(networks))


def plain_name(host: str) -> str:
    """Return a host name as it is compared: in small letters, without the dot of the root."""
    return host.lower().removesuffix(".")


def allowed(ip: Address, host: str, exceptions: Permitted) -> bool:
    """Whether an address may be dialled on behalf of a URL with this host."""
    ip = _without_zone(ip)
    reached = _reached(ip)
    if not _METADATA.isdisjoint(reached):
        return False
    if plain_name(host) in exceptions.names or _is_named(ip, exceptions):
        return True
    return all(_is_public(each) or _is_named(each, exceptions) for each in reached)


def advertisable(host: str, exceptions: Permitted) -> bool:
    """Whether a server may send clients in other pods to this host. No name is looked up, and nothing is dialled.

    Private addresses are fine, as other pods have such. Loopback, link-local and metadata addresses are not.
    """
    name = plain_name(host)
    if _NAME.fullmatch(name):
        return name in exceptions.names or not (name in _METADATA_NAMES or _is_localhost(name))
    try:
        ip = _without_zone(ip_address(name))
    except ValueError:
        # Resolvers take some of these for addresses, such as 2130706433 for 127.0.0.1.
        return False
    reached = _reached(ip)
    if not _METADATA.isdisjoint(reached):
        return False
    others = not any(each in network for each in (ip, *reached) for network in _NOT_OTHERS)
    return others or _is_named(ip, exceptions)


def _is_localhost(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _without_zone(ip: Address) -> Address:
    # With its zone (`%eth0`), an address equals no other and would slip past every comparison.
    return IPv6Address(int(ip)) if isinstance(ip, IPv6Address) else ip


def _reached(ip: Address) -> tuple[Address, ...]:
    """Return every address that a packet to this one may end up at: some IPv6 addresses wrap one of IPv4."""
    if isinstance(ip, IPv4Address):
        return (ip,)
    bits = int(ip)
    if ip in _6TO4:
        return (IPv4Address(bits >> 80 & 0xFFFFFFFF),)
    last = IPv4Address(bits & 0xFFFFFFFF)
    if any(ip in network for network in _IPV4_LAST):
        return (last,)
    if (bits >> 32 & 0xFFFFFFFF) & ~_ISATAP_UNIQUE_BIT == _ISATAP:
        return (ip, last)
    return (ip,)


def _is_public(ip: Address) -> bool:
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in _NOT_PUBLIC_V4)
    return ip in _UNICAST_V6 and not any(ip in network for network in _NOT_PUBLIC_V6)


def _is_named(ip: Address, exceptions: Permitted) -> bool:
    return any(ip in network for network in exceptions.networks)


def _network(text: str, entry: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        message = f"{entry!r} is neither a host name nor an IP address nor a CIDR such as 10.0.0.0/8 ({error})"
        raise ValueError(message) from error
