from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from modelyard.net.sse import SseDecoder


def read(*chunks: bytes) -> list[bytes]:
    stream = SseDecoder()
    return [data for chunk in chunks for data in stream.feed(chunk)]


def test_each_event_gives_its_data() -> None:
    assert read(b"data: one\n\ndata:two\n\n") == [b"one", b"two"]


def test_data_over_several_lines_is_joined() -> None:
    assert read(b"data: one\ndata: two\n\n") == [b"one\ntwo"]


def test_comments_ids_and_empty_events_are_passed_over() -> None:
    assert read(b": hello\nid: 7\nretry: 10\n\nid: 8\ndata:\n\ndata: x\n\n") == [b"x"]


def test_events_of_other_names_are_passed_over() -> None:
    assert read(b"event: ping\ndata: x\n\nevent: message\ndata: y\n\ndata: z\n\n") == [b"y", b"z"]


def test_an_event_that_is_not_finished_gives_nothing() -> None:
    assert read(b"data: one\n") == []


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    assert read(b"\xef\xbb\xbfdata: one\n\n") == [b"one"]


@given(st.sampled_from([b"\n", b"\r", b"\r\n"]), st.lists(st.integers(0, 80), max_size=12))
def test_it_does_not_matter_where_chunks_are_cut(line_end: bytes, cuts: list[int]) -> None:
    whole = line_end.join([b"event: message", b"data: one", b"data: two", b"", b": note", b"data: three", b"", b""])
    edges = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    chunks = [whole[start:end] for start, end in pairwise(edges)]
    assert read(*chunks) == [b"one\ntwo", b"three"]
