"""Every pod has an address of its own, and every Service a place, also where loopback has one address only."""

from __future__ import annotations

import socket

from hypothesis import given
from hypothesis import strategies as st

from modelyard.local.node.proxy.addresses import HostPort, PodAddress, PodAddresses, listen_choices


def test_a_pod_keeps_its_address_until_it_is_given_back() -> None:
    addresses = PodAddresses(many=True)
    first = addresses.take("uid")
    assert addresses.take("uid") is first
    addresses.give_back("uid")
    addresses.give_back("uid")
    assert PodAddresses(many=True).take("uid") == first


@given(st.sets(st.uuids(), max_size=300))
def test_no_two_pods_share_an_address(uids: set[object]) -> None:
    addresses = PodAddresses(many=True)
    taken = [addresses.take(str(uid)) for uid in uids]
    assert len({address.ip for address in taken}) == len({address.shown for address in taken}) == len(uids)
    assert all(address.ip.startswith("127.97.") for address in taken)


def test_a_pod_whose_address_is_taken_gets_the_next_and_a_free_one_is_used_again() -> None:
    addresses = PodAddresses(many=True)
    first = addresses.take("uid-0")
    rival = next(uid for uid in map("uid-{}".format, range(1, 10**6)) if PodAddresses(many=True).take(uid) == first)
    second = addresses.take(rival)
    assert second != first
    addresses.give_back("uid-0")
    assert addresses.take(rival) == second
    addresses.give_back(rival)
    assert addresses.take(rival) == first


def test_what_the_cluster_is_shown_is_no_loopback_address_and_leads_back_to_the_pod() -> None:
    addresses = PodAddresses(many=True)
    address = addresses.take("uid")
    assert address == PodAddress(ip="127.97." + address.shown.removeprefix("240.97."), port=None, shown=address.shown)
    assert addresses.where(HostPort(address.shown, 8080)) == HostPort(address.ip, 8080)


def test_an_endpoint_that_is_no_pod_of_ours_is_where_it_says() -> None:
    place = HostPort("198.51.100.7", 443)
    assert PodAddresses(many=True).where(place) == PodAddresses(many=False).where(place) == place


def test_two_pods_listen_on_the_same_port() -> None:
    addresses = PodAddresses(many=True)
    with socket.socket() as one, socket.socket() as other:
        one.bind((addresses.take("one").ip, 0))
        port = one.getsockname()[1]
        one.listen()
        other.bind((addresses.take("other").ip, port))
        other.listen()


def test_where_loopback_has_one_address_each_pod_has_a_port() -> None:
    addresses = PodAddresses(many=False)
    one, other = addresses.take("one"), addresses.take("other")
    assert (one.ip, other.ip) == ("127.0.0.1", "127.0.0.1")
    assert one.port
    assert other.port
    assert one.port != other.port
    assert addresses.where(HostPort(one.shown, 8080)) == HostPort("127.0.0.1", one.port)
    addresses.give_back("one")
    assert addresses.where(HostPort(one.shown, 8080)) is None


def test_a_service_is_at_its_own_address_or_at_a_port_that_needs_no_rights() -> None:
    choices = listen_choices("127.96.1.2", 80, many=True)
    assert choices[:2] == [HostPort("127.96.1.2", 80), HostPort("127.96.1.2", 30080)]
    assert {place.host for place in choices} == {"127.96.1.2"}
    assert len(set(choices)) == len(choices) > 5
    assert listen_choices("127.96.1.2", 50051, many=True)[1] == HostPort("127.96.1.2", 20051)


def test_where_loopback_has_one_address_a_service_has_the_same_port_at_every_start() -> None:
    places = listen_choices("127.96.1.2", 80, many=False)
    assert places == listen_choices("127.96.1.2", 80, many=False)
    assert len(set(places)) == len(places) > 10
    assert {place.host for place in places} == {"127.0.0.1"}
    assert places != listen_choices("127.96.1.3", 80, many=False)


def test_a_place_reads_as_it_is_written_in_an_address_line() -> None:
    assert (str(HostPort("127.0.0.1", 80)), str(HostPort("::1", 80))) == ("127.0.0.1:80", "[::1]:80")
