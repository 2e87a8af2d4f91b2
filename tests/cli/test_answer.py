"""Where a question goes, what each event of an answer adds, and how its speed is measured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modelyard.cluster.answer import Address, Figures, Meter, NotAnswering, address_of, shown
from modelyard.core.resources import Key

CHAT = Key("team", "chat")


def event(text: str = "", **more: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}], **more}).encode()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (
            "http://chat.team.svc.cluster.local:8080/v1/chat/completions",
            Address(CHAT, "http", 8080, "/v1/chat/completions"),
        ),
        ("http://chat.team.svc.cluster.local:8080", Address(CHAT, "http", 8080, "/v1/chat/completions")),
        ("https://chat.team.svc", Address(CHAT, "https", 443, "/v1/chat/completions")),
        (
            "http://chat.team.svc.cluster.local/api/chat/completions",
            Address(CHAT, "http", 80, "/api/chat/completions"),
        ),
    ],
)
def test_the_url_of_a_status_leads_to_a_service(url: str, address: Address) -> None:
    assert address_of(url) == address


@pytest.mark.parametrize("url", ["", "https://models.example.com/v1"])
def test_what_is_no_service_of_the_cluster_cannot_be_asked(url: str) -> None:
    with pytest.raises(NotAnswering, match="names no Service of the cluster"):
        address_of(url)


def test_the_api_server_is_told_the_port_and_whether_to_use_tls() -> None:
    proxied = "/api/v1/namespaces/team/services/https:chat:443/proxy"
    assert Address(CHAT, "https", 443, "/v1/chat/completions").proxied == proxied
    assert Address(CHAT, "http", 80, "/v1/chat/completions").models == "/v1/models"


def test_the_pieces_of_an_answer_are_measured_from_the_question_on() -> None:
    meter = Meter()
    lines = [
        (event(), 0.1),
        (event("a"), 0.5),
        (b"", 0.5),
        (event("b"), 1.0),
        (event("c"), 1.5),
        (b"data: [DONE]", 2.0),
    ]
    assert [meter.add(line, at) for line, at in lines] == ["", "a", "", "b", "c", ""]
    assert meter.text == "abc"
    assert meter.figures() == Figures(first_token_seconds=0.5, seconds=1.5, tokens=3, tokens_per_second=2.0)


def test_a_server_that_counts_its_tokens_is_believed() -> None:
    meter = Meter()
    meter.add(event("several tokens"), 1.0)
    meter.add(event(" at once"), 2.0)
    meter.add(b'data: {"choices": [], "usage": {"completion_tokens": 9}}', 2.0)
    assert meter.figures() == Figures(first_token_seconds=1.0, seconds=2.0, tokens=9, tokens_per_second=8.0)


def test_an_answer_that_never_came_has_no_speed() -> None:
    assert Meter().figures() == Figures(0.0, 0.0, 0, 0.0)


def test_an_error_in_the_middle_is_no_answer() -> None:
    with pytest.raises(NotAnswering, match="the model broke off: out of memory"):
        Meter().add(b'data: {"error": {"message": "out of memory"}}', 1.0)


@pytest.mark.parametrize("line", [b": comment", b"event: x", b"data: {", b"data: []", b'data: {"choices": [1]}'])
def test_a_line_that_adds_nothing_is_left_out(line: bytes) -> None:
    assert Meter().add(line, 1.0) == ""


def test_a_model_cannot_control_the_terminal() -> None:
    assert shown("red\x1b[31m\nline\x07") == "red[31m\nline"
