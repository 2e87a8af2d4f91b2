"""Which addresses are dialled on behalf of users: a table, and what an administrator can change about it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.net.addresses import Permitted, advertisable, allowed, permitted

NOBODY = Permitted()

REFUSED = [
    # loopback, unspecified and this network
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "::1", "::"),
    # private and shared
    *("10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "100.127.255.255"),
    *("fc00::1", "fd12:3456::1", "fec0::1"),
    # link-local
    *("169.254.0.1", "169.254.255.255", "fe80::1", "fe80::1%eth0", "febf::1"),
    # protocol assignments, documentation, benchmarks, relays
    *("192.0.0.1", "192.0.0.255", "192.0.2.1", "198.51.100.7", "203.0.113.7", "198.18.0.1", "198.19.255.255"),
    *("192.88.99.1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "3fff::1", "100::1", "5f00::1"),
    # multicast, reserved, broadcast
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "ff02::1", "ff0e::1", "4000::1", "e000::1"),
    # metadata services
    *("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::254%eth0", "fd20:ce::254"),
    *("168.63.129.16", "100.100.100.200", "192.0.0.192"),
    # IPv4 in IPv6: mapped, compatible, NAT64, local NAT64, 6to4, Teredo, ISATAP
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:168.63.129.16", "::ffff:0:8.8.8.8"),
    *("::127.0.0.1", "::10.1.2.3", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8"),
    *("2002:7f00:1::1", "2002:a00:1::1", "2002:a9fe:a9fe::", "2001:0:808:808::1"),
    *("2600::5efe:10.0.0.1", "2600::200:5efe:10.0.0.1", "fe80::5efe:8.8.8.8", "fd00::200:5efe:8.8.8.8"),
]

PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1", "126.255.255.255"),
    *("128.0.0.1", "169.253.1.1", "172.15.255.255", "172.32.0.1", "192.0.1.1", "198.17.1.1", "198.20.0.1"),
    *("223.255.255.255", "2600::1", "2606:4700::1111", "2a00:1450::1", "3ffe::1", "2001:200::1"),
    *("::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2600::5efe:8.8.8.8"),
]

METADATA = ["169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254%eth0", "168.63.129.16", "64:ff9b::a9fe:a9fe"]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_public_is_refused(text: str) -> None:
    assert not allowed(ip_address(text), "files.example", NOBODY)


@pytest.mark.parametrize("text", PUBLIC)
def test_what_is_public_is_allowed(text: str) -> None:
    assert allowed(ip_address(text), "files.example", NOBODY)


@pytest.mark.parametrize(
    ("entry", "text", "expected"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "11.0.0.1", True),
        ("10.0.0.0/8", "192.168.0.1", False),
        ("192.168.0.7", "192.168.0.7", True),
        ("192.168.0.7", "192.168.0.8", False),
        ("fd12::/16", "fd12::1", True),
        ("fd12::/16", "fd13::1", False),
        ("64:ff9b::/96", "64:ff9b::10.0.0.1", True),
        ("10.0.0.0/8", "fd00::5efe:10.0.0.1", False),
        ("minio.storage", "10.1.2.3", False),
    ],
)
def test_an_administrator_can_permit_networks_and_addresses(entry: str, text: str, expected: bool) -> None:
    assert allowed(ip_address(text), "files.example", permitted([entry])) is expected


@pytest.mark.parametrize("host", ["minio.storage", "MinIO.Storage", "minio.storage."])
def test_an_administrator_can_permit_a_host_whatever_its_addresses(host: str) -> None:
    exceptions = permitted(["10.0.0.0/8", " Minio.storage. "])
    assert allowed(IPv4Address("192.168.0.1"), host, exceptions)
    assert not allowed(IPv4Address("192.168.0.1"), f"x.{host}", exceptions)


@pytest.mark.parametrize("text", METADATA)
def test_nobody_can_permit_the_metadata_services_of_clouds(text: str) -> None:
    everything = permitted(["0.0.0.0/0", "::/0", "metadata.example"])
    assert not allowed(ip_address(text), "metadata.example", everything)


def test_names_and_networks_are_told_apart() -> None:
    assert permitted(["localhost", "a_b.example", "10.0.0.0/8", "::1"]) == Permitted(
        frozenset({"localhost", "a_b.example"}), permitted(["10.0.0.0/8", "::1"]).networks
    )


@pytest.mark.parametrize(
    "entry",
    ["", "*.example.com", "host:80", "http://host", "10.0.0.1/8", "127.1", "0x7f.1", "1.2.3.4.5", "a b"],
)
def test_an_entry_that_makes_no_sense_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match="is neither a host name nor an IP address nor a CIDR") as caught:
        permitted(["fine.example", entry])
    assert str(caught.value).startswith(repr(entry))


@given(st.ip_addresses(v=4))
def test_wrapping_an_address_changes_nothing(inner: IPv4Address) -> None:
    expected = allowed(inner, "", NOBODY)
    low = int(inner)
    for wrapper in (0xFFFF << 32 | low, low, 0x64FF9B << 96 | low, 0x2002 << 112 | low << 80):
        assert allowed(IPv6Address(wrapper), "", NOBODY) is expected


@given(st.ip_addresses(v=6))
def test_an_address_of_ipv6_is_never_allowed_where_python_calls_it_special(ip: IPv6Address) -> None:
    special = ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip.is_site_local
    assert not (special and allowed(ip, "", NOBODY))


@given(st.ip_addresses(v=4))
def test_an_address_of_ipv4_is_never_allowed_where_python_calls_it_private(ip: IPv4Address) -> None:
    special = ip.is_private or ip.is_multicast or ip.is_reserved or ip.is_link_local or ip.is_loopback
    assert not (special and allowed(ip, "", NOBODY))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("calendar.default.svc.cluster.local", True),
        ("calendar", True),
        ("agents.example.com", True),
        ("10.1.2.3", True),
        ("192.168.0.7", True),
        ("fd12::1", True),
        ("8.8.8.8", True),
        ("localhost", False),
        ("a.LOCALHOST.", False),
        ("metadata.google.internal", False),
        ("127.0.0.1", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("fe80::1", False),
        ("224.0.0.1", False),
        ("2130706433", False),
        ("0x7f.1", False),
        ("127.1", False),
        ("", False),
        *((text, False) for text in METADATA),
    ],
)
def test_a_server_may_send_clients_to_other_pods_but_not_to_themselves(host: str, expected: bool) -> None:
    assert advertisable(host, NOBODY) is expected


def test_an_administrator_can_permit_what_servers_name_but_not_the_metadata_services() -> None:
    exceptions = permitted(["localhost", "0.0.0.0/0", "::/0"])
    assert [advertisable(host, exceptions) for host in ("localhost", "127.0.0.1", "::1")] == [True, True, True]
    assert not any(advertisable(text, exceptions) for text in METADATA)
