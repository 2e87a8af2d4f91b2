"""Which endpoints answer for which port of a Service."""

from __future__ import annotations

from typing import Any

from modelyard.core.objects import Stored
from modelyard.core.resources import ENDPOINT_SLICE, SERVICE, Key
from modelyard.local.node.proxy.addresses import HostPort
from modelyard.local.node.proxy.routes import routes

_KEY = Key("team", "yard")
_IP = "127.96.3.4"


def _service(*ports: dict[str, Any], **spec: Any) -> Stored:
    metadata = {"name": "yard", "namespace": "team", "uid": "1", "resourceVersion": "1"}
    body = {"metadata": metadata, "spec": {"clusterIP": _IP, "ports": list(ports or [{"port": 8080}]), **spec}}
    return Stored.from_dict(SERVICE, body)


def _slice(
    *endpoints: dict[str, Any], ports: Any = ({"name": "", "port": 8000},), service: str = "yard", kind: str = "IPv4"
) -> Stored:
    labels = {"kubernetes.io/service-name": service}
    body = {
        "metadata": {"name": "yard-x", "namespace": "team", "labels": labels, "resourceVersion": "1"},
        "addressType": kind,
        "endpoints": list(endpoints) or None,
        "ports": ports,
    }
    return Stored.from_dict(ENDPOINT_SLICE, body)


def _endpoint(ip: str, **conditions: bool) -> dict[str, Any]:
    return {"addresses": [ip], "conditions": conditions}


def _answering(*slices: Stored, service: Stored | None = None) -> list[list[str]]:
    found = routes([service or _service()], slices, many=True)
    return [[str(place) for place in route.endpoints] for route in found]


def test_a_route_has_its_own_address_and_the_ready_endpoints() -> None:
    ready = _slice(_endpoint("240.97.0.2", ready=True), _endpoint("240.97.0.1", ready=True))
    (route,) = routes([_service()], [ready], many=True)
    assert (route.service, route.port) == (_KEY, 8080)
    assert route.choices[:2] == (HostPort(_IP, 8080), HostPort(_IP, 38080))
    assert route.endpoints == (HostPort("240.97.0.1", 8000), HostPort("240.97.0.2", 8000))


def test_endpoints_that_are_not_ready_do_not_answer() -> None:
    assert _answering(_slice(_endpoint("a", ready=False, serving=False), _endpoint("b", ready=True))) == [["b:8000"]]
    assert _answering(_slice(_endpoint("a", ready=False, serving=False))) == [[]]


def test_an_endpoint_of_which_nothing_is_known_answers() -> None:
    assert _answering(_slice({"addresses": ["a"]})) == [["a:8000"]]


def test_endpoints_that_end_answer_only_when_there_are_no_others() -> None:
    ending = _endpoint("a", ready=False, serving=True, terminating=True)
    assert _answering(_slice(ending)) == [["a:8000"]]
    assert _answering(_slice(ending), _slice(_endpoint("b", ready=True))) == [["b:8000"]]


def test_ports_are_told_apart_by_name() -> None:
    service = _service({"name": "http", "port": 80}, {"name": "metrics", "port": 9090})
    ports = [{"name": "metrics", "port": 9000}, {"name": "http", "port": 8000}]
    assert _answering(_slice(_endpoint("a"), ports=ports), service=service) == [["a:8000"], ["a:9000"]]


def test_pods_that_listen_on_different_ports_are_in_slices_of_their_own() -> None:
    other = _slice(_endpoint("b"), ports=[{"name": "", "port": 9000}])
    assert _answering(_slice(_endpoint("a")), other) == [["a:8000", "b:9000"]]


def test_slices_without_endpoints_or_ports_and_those_of_others_change_nothing() -> None:
    strange = [_slice(), _slice(_endpoint("a"), ports=None), _slice(_endpoint("a"), service="other")]
    unusable = [_slice(_endpoint("a.example.com"), kind="FQDN"), _slice(_endpoint("a"), ports=[{"name": ""}])]
    assert _answering(*strange, *unusable) == [[]]


def test_only_tcp_is_forwarded() -> None:
    service = _service({"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "tcp", "port": 53})
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "tcp", "port": 5353, "protocol": "TCP"}]
    assert _answering(_slice(_endpoint("a"), ports=ports), service=service) == [["a:5353"]]


def test_a_node_port_is_offered_at_the_first_loopback_address_too() -> None:
    service = _service({"port": 8080, "nodePort": 30123}, type="NodePort")
    found = routes([service], [_slice(_endpoint("a"))], many=True)
    assert [(route.port, route.choices[0]) for route in found] == [
        (8080, HostPort(_IP, 8080)),
        (0, HostPort("127.0.0.1", 30123)),
    ]
    assert found[0].endpoints == found[1].endpoints == (HostPort("a", 8000),)


def test_a_service_without_an_address_has_no_route() -> None:
    services = [_service(clusterIP="None"), _service(clusterIP="", type="ExternalName", externalName="example.com")]
    assert routes(services, [_slice(_endpoint("a"))], many=True) == []
