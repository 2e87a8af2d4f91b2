"""Local processes reach Services by the names that work in a cluster."""

from __future__ import annotations

import pytest

from modelyard.core.resources import Key
from modelyard.local.node.proxy.addresses import HostPort
from modelyard.local.node.proxy.service_dns import resolve_names

_IP = "127.96.3.4"
_SERVICES = {
    Key("team", "yard"): {8080: HostPort(_IP, 8080)},
    Key("team", "web"): {80: HostPort("127.96.5.6", 30080), 443: HostPort("127.96.5.6", 443)},
    Key("other", "yard"): {8080: HostPort("127.96.7.8", 8080)},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://yard.team.svc.cluster.local:8080/v1", f"http://{_IP}:8080/v1"),
        ("http://yard.team.svc.cluster.local.:8080", f"http://{_IP}:8080"),
        ("http://yard.team.svc:8080", f"http://{_IP}:8080"),
        ("http://yard.team:8080", f"http://{_IP}:8080"),
        ("http://yard:8080/v1", f"http://{_IP}:8080/v1"),
        ("http://yard.other:8080", "http://127.96.7.8:8080"),
        ("yard.team.svc.cluster.local", _IP),
        ("yard.team", _IP),
        ("yard:8080", f"{_IP}:8080"),
        ("--upstream=yard:8080", f"--upstream={_IP}:8080"),
        ("yard:8080,yard.other:8080", f"{_IP}:8080,127.96.7.8:8080"),
        ('{"url":"http://yard.team.svc:8080"}', f'{{"url":"http://{_IP}:8080"}}'),
        ("postgres://user:word@yard.team.svc:8080/db", f"postgres://user:word@{_IP}:8080/db"),
        ("Ask yard.team.svc.", f"Ask {_IP}."),
    ],
)
def test_a_name_becomes_the_place_of_its_service(text: str, expected: str) -> None:
    assert resolve_names(text, _SERVICES, "team") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://web/index", "http://127.96.5.6:30080/index"),
        ("http://web.team.svc:80", "http://127.96.5.6:30080"),
        ("https://web.team.svc/x", "https://127.96.5.6/x"),
        ("https://web.team.svc:443/x", "https://127.96.5.6:443/x"),
        ("http://web.team.svc:9", "http://127.96.5.6:9"),
        ("ftp://web", "ftp://127.96.5.6"),
    ],
)
def test_a_port_that_moved_is_named_also_where_it_was_left_out(text: str, expected: str) -> None:
    assert resolve_names(text, _SERVICES, "team") == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yard",
        "a yard.team of stone",
        "yard:8081",
        "registry.example.com/yard:8080",
        "/models/yard:8080",
        "http://yard.example.com:8080",
        "http://yard.team.example.com",
        "http://www.yard.team.svc:8080",
        "http://my-yard:8080",
        "http://nobody.team.svc:8080",
        "http://yard.nowhere.svc:8080",
        "127.0.0.1:8080",
        "--model=yard.team-x.gguf",
    ],
)
def test_what_is_no_name_of_a_service_is_left_alone(text: str) -> None:
    assert resolve_names(text, _SERVICES, "team") == text


def test_a_name_without_a_namespace_needs_the_pods_own() -> None:
    assert resolve_names("http://yard:8080", _SERVICES) == "http://yard:8080"
