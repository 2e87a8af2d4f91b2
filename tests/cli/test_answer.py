"""What each event of an answer adds, how its speed is measured, and why there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modelyard.cluster.answer import Figures, Meter, NotAnswering, Piece, complaint, shown


def event(text: str = "", **more: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}], **more}).encode()


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
    assert [meter.add(line, at) for line, at in lines] == [None, Piece("a"), None, Piece("b"), Piece("c"), None]
    assert meter.figures() == Figures(first_token_seconds=0.5, seconds=1.5, tokens=3, tokens_per_second=2.0)


def test_a_server_that_counts_its_tokens_is_believed() -> None:
    meter = Meter()
    meter.add(event("several tokens"), 1.0)
    meter.add(event(" at once"), 2.0)
    meter.add(b'data: {"choices": [], "usage": {"completion_tokens": 9}}', 2.0)
    assert meter.figures() == Figures(first_token_seconds=1.0, seconds=2.0, tokens=9, tokens_per_second=8.0)


@pytest.mark.parametrize(
    ("timings", "speed"),
    [
        ({"predicted_per_second": 1100.5}, 1100.5),
        ({"predicted_per_second": 10**6}, 50000.0),
        ({"predicted_per_second": "fast"}, 50000.0),
        ([], 50000.0),
        (None, 50000.0),
    ],
)
def test_pieces_that_arrive_together_are_not_faster_than_they_were_made(timings: Any, speed: float) -> None:
    meter = Meter()
    meter.add(event("a"), 1.0)
    meter.add(event("b"), 1.0001)
    last = {"choices": [], "usage": {"completion_tokens": 6}, "timings": timings}
    meter.add(b"data: " + json.dumps(last).encode(), 1.0001)
    assert meter.figures().tokens_per_second == speed


def test_thoughts_are_no_text_but_count_as_tokens() -> None:
    meter = Meter()
    assert meter.add(b'data: {"model": "yard", "choices": [{"delta": {"reasoning_content": "hm"}}]}', 1.0) == Piece(
        thought="hm"
    )
    meter.add(event("a"), 2.0)
    assert (meter.model, meter.figures()) == ("yard", Figures(1.0, 2.0, 2, 1.0))


def test_an_answer_that_never_came_is_none() -> None:
    with pytest.raises(NotAnswering, match="ended its answer without a word"):
        Meter().figures()


def test_an_error_in_the_middle_is_no_answer() -> None:
    with pytest.raises(NotAnswering, match="the model broke off: out of memory"):
        Meter().add(b'data: {"error": {"message": "out of memory"}}', 1.0)


@pytest.mark.parametrize("line", [b": comment", b"event: x", b"data: {", b"data: []", b'data: {"choices": [1]}'])
def test_a_line_that_adds_nothing_is_left_out(line: bytes) -> None:
    assert Meter().add(line, 1.0) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "too long"}}', "too long"),
        (b'{"error": "too long"}', "too long"),
        (b'{"message": "no such model"}', "no such model"),
        (b'{"detail": "no room for the context"}', "no room for the context"),
        (b"<h1>bad\x1b[31m</h1>", "<h1>bad[31m</h1>"),
        (b"[1]", "[1]"),
    ],
)
def test_a_refusal_is_told_in_the_words_of_the_server(body: bytes, words: str) -> None:
    assert complaint(400, body) == f"it says 400: {words}"


def test_a_model_cannot_control_the_terminal() -> None:
    assert shown("red\x1b[31m\nline\x07") == "red[31m\nline"
