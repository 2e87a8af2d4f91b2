"""Text of programs, made fit to be shown."""

from __future__ import annotations

import pytest

from modelyard.core.text import clean, log_line


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain\ttext", "plain\ttext"),
        (b"\x1b[1;31mred\x1b[0m and \x1b[2Kgone", "red and gone"),
        (b"\x1b]0;a title\x07text \x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "text link"),
        (b"10 %\r50 %\r100 %\r", "100 %"),
        ("safe\u202eexe.cod\u2066".encode(), "safeexe.cod"),
        (b"bell\x07 null\x00 cut \x1b", "bell null cut "),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("naïve 模型 🦙".encode(), "naïve 模型 🦙"),
        (b"<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
    ],
)
def test_a_line_of_a_log_is_left_as_a_terminal_would_leave_it(raw: bytes, shown: str) -> None:
    assert log_line(raw) == shown


def test_a_line_without_an_end_is_cut() -> None:
    line = log_line(b"x" * 10_000_000)
    assert (len(line), line[-1]) == (16 * 1024 + 1, "…")


def test_what_is_quoted_is_one_line() -> None:
    assert clean("two\nlines\x1b[0m") == "two lines[0m"
