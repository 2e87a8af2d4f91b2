"""Any bytes give a header, the wish for more bytes, or a plain refusal; and they give the same however they are cut."""

from __future__ import annotations

import struct
import tracemalloc
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.core.gguf import GgufReport
from modelyard.net.gguf import LARGEST_NUMBER, LONGEST_STRING, MOST_ELEMENTS, BadHeader, HeaderReader
from modelyard.net.gguf_names import license_name, quantization
from tests.net.headers import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I8,
    I32,
    I64,
    STRING,
    U8,
    U16,
    U64,
    Pair,
    gguf,
    number,
    numbers,
    string,
    strings,
    text,
)

YARD = (Path(__file__).parents[1] / "data" / "yard.gguf").read_bytes()
EMPTY = GgufReport(file_version=3, tensor_count=2)

ORDINARY: tuple[Pair, ...] = (
    string("general.architecture", "llama"),
    string("general.name", "Tiny"),
    string("general.license", "Apache License 2.0"),
    number("llama.context_length", 8192),
    number("llama.embedding_length", 4096, U64),
    number("llama.block_count", 32, U16),
    number("llama.attention.head_count", 7, U8),
    number("llama.rope.freq_base", 0.5, F32),
    number("x.double", 0.5, F64),
    number("x.flag", True, BOOL),
    number("x.signed", -1, I8),
    numbers("tokenizer.ggml.scores", [0.5] * 100, F32),
    strings("tokenizer.ggml.tokens", [f"token-{index}" for index in range(100)]),
    number("general.file_type", 15),
)
EXPECTED = GgufReport(
    file_version=3,
    tensor_count=2,
    architecture="llama",
    model_name="Tiny",
    quantization="Q4_K_M",
    context_length=8192,
    embedding_size=4096,
    layer_count=32,
    head_count=7,
    license="apache-2.0",
)


def read(*pieces: bytes) -> GgufReport | None:
    reader = HeaderReader()
    return next((header for piece in pieces if (header := reader.feed(piece))), None)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


def test_the_header_of_a_real_model_is_read() -> None:
    header = read(YARD[:65536])
    assert msgspec.to_builtins(header) == {
        "fileVersion": 3,
        "tensorCount": 57,
        "architecture": "llama",
        "modelName": "Yard",
        "quantization": "Q8_0",
        "contextLength": 256,
        "embeddingSize": 192,
        "layerCount": 6,
        "headCount": 6,
        "license": "mit",
    }


def test_everything_that_status_shows_is_read() -> None:
    assert read(gguf(*ORDINARY)) == EXPECTED


def test_the_order_of_keys_does_not_matter() -> None:
    assert read(gguf(*reversed(ORDINARY))) == EXPECTED


def test_version_2_is_read_like_version_3() -> None:
    assert read(gguf(*ORDINARY, version=2)) == msgspec.structs.replace(EXPECTED, file_version=2)


def test_what_the_file_does_not_say_is_empty() -> None:
    assert read(gguf()) == EMPTY


def test_more_bytes_are_wanted_until_the_header_is_complete() -> None:
    data = gguf(*ORDINARY)
    reader = HeaderReader()
    assert [reader.feed(data[index : index + 1]) for index in range(len(data) - 1)] == [None] * (len(data) - 1)
    assert reader.feed(data[-1:]) == EXPECTED


@given(st.lists(st.integers(min_value=0), max_size=20))
def test_where_pieces_are_cut_does_not_matter(places: list[int]) -> None:
    assert read(*cut(gguf(*ORDINARY), places)) == EXPECTED


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        pytest.param(number("llama.context_length", 5, I32), {}, id="signed"),
        pytest.param(number("llama.context_length", 5, F32), {}, id="fraction"),
        pytest.param(numbers("llama.attention.head_count", [5, 6]), {}, id="one for each layer"),
        pytest.param(string("llama.context_length", "5"), {}, id="text for a number"),
        pytest.param(number("general.name", 5), {}, id="number for a text"),
        pytest.param(number("gemma.context_length", 5), {}, id="of another architecture"),
        pytest.param(
            number("llama.context_length", LARGEST_NUMBER, U64), {"context_length": LARGEST_NUMBER}, id="most"
        ),
        pytest.param(number("llama.context_length", LARGEST_NUMBER + 1, U64), {}, id="more than JSON can say"),
        pytest.param(number("general.file_type", 4711), {"quantization": "Unknown"}, id="unknown file type"),
        pytest.param(string("general.file_type", "x"), {}, id="text for a file type"),
        pytest.param(string("general.name", "a\x00\x1b\u202eb\n"), {"model_name": "ab"}, id="control characters"),
        pytest.param(string("general.name", b"a\xff\xfeb"), {"model_name": "ab"}, id="not UTF-8"),
        pytest.param(string("general.name", "ü" * 9_000), {"model_name": "ü" * 128}, id="too long to show"),
    ],
)
def test_odd_values_are_left_out_or_made_fit_to_be_shown(pair: Pair, expected: dict[str, object]) -> None:
    known = msgspec.structs.replace(EMPTY, architecture="llama", **expected)
    assert read(gguf(string("general.architecture", "llama"), pair)) == known


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        pytest.param(b"PK\x03\x04 a zip", "does not begin with GGUF", id="another format"),
        pytest.param(b"<html><head>", "does not begin with GGUF", id="a page"),
        pytest.param(gguf(version=1), "another version", id="version 1"),
        pytest.param(gguf(version=4), "another version", id="version 4"),
        pytest.param(b"GGUF\x00\x00\x00\x03" + bytes(16), "another version", id="big endian"),
        pytest.param(gguf(tensors=2**63), "number of tensors", id="tensors without end"),
        pytest.param(gguf(count=2**64 - 1), "number of metadata keys", id="keys without end"),
        pytest.param(gguf(("k", 13, b"")), "a type that is not known", id="unknown type"),
        pytest.param(gguf(("k", ARRAY, struct.pack("<IQ", 99, 1))), "a type that is not known", id="unknown element"),
        pytest.param(gguf(("k", ARRAY, struct.pack("<IQ", ARRAY, 1))), "an array holds arrays", id="nested array"),
        pytest.param(gguf(("k", STRING, struct.pack("<Q", LONGEST_STRING + 1))), "length of a string", id="string"),
        pytest.param(gguf(("k", ARRAY, struct.pack("<IQ", U8, MOST_ELEMENTS + 1))), "length of an array", id="array"),
        pytest.param(
            gguf(("k", ARRAY, struct.pack("<IQQ", STRING, 1, LONGEST_STRING + 1))),
            "length of a string",
            id="element",
        ),
        pytest.param(gguf(strings("k", ["x" * (LONGEST_STRING + 1)])), "length of a string", id="element at once"),
        pytest.param(gguf(("k" * 65536, U8, b"0")), "length of a string", id="key"),
    ],
)
def test_a_bad_header_is_refused_as_soon_as_it_is_seen(data: bytes, wrong: str) -> None:
    with pytest.raises(BadHeader, match=wrong):
        read(data)


def test_a_vocabulary_costs_no_memory() -> None:
    vocabulary = strings("tokenizer.ggml.tokens", ["token"] * 200_000)
    license_text = string("general.license", "x" * 5_000_000)
    data = gguf(vocabulary, license_text, ("padding", ARRAY, struct.pack("<IQ", U64, 1_000_000) + bytes(8_000_000)))
    pieces = [data[start : start + 65536] for start in range(0, len(data), 65536)]
    tracemalloc.start()
    try:
        header = read(*pieces)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert header == msgspec.structs.replace(EMPTY, license="x" * 64)
    assert peak < 1024 * 1024


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param([number(f"{n:05}{'a' * 60_000}.context_length", 1) for n in range(100)], id="long keys"),
        pytest.param([string(f"{n}.context_length", "x" * 1000) for n in range(5000)], id="many pairs"),
    ],
)
def test_made_up_pairs_cost_no_memory(pairs: list[Pair]) -> None:
    data = gguf(*pairs)
    pieces = [data[start : start + 65536] for start in range(0, len(data), 65536)]
    tracemalloc.start()
    try:
        assert read(*pieces) == EMPTY
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1024 * 1024


@given(st.binary(max_size=512), st.lists(st.integers(min_value=0), max_size=4))
def test_any_bytes_give_a_result_or_a_plain_refusal(data: bytes, places: list[int]) -> None:
    for start in (data, b"GGUF" + data, gguf(count=3) + data):
        try:
            header = read(*cut(start, places))
        except BadHeader:
            continue
        assert header is None or header.file_version in (2, 3)


KINDS = st.sampled_from([*range(15), 2**32 - 1])
LENGTHS = st.one_of(st.integers(0, 40), st.sampled_from([LONGEST_STRING, LONGEST_STRING + 1, 2**63, 2**64 - 1]))
KEYS = st.sampled_from([key for key, _, _ in ORDINARY])


@st.composite
def plausible(draw: st.DrawFn) -> bytes:
    """Bytes that look like pairs, with types, lengths and ends that may be wrong."""
    parts = []
    for _ in range(draw(st.integers(0, 6))):
        head = text(draw(KEYS)) + struct.pack("<I", draw(KINDS))
        array = struct.pack("<IQ", draw(KINDS), draw(LENGTHS)) if draw(st.booleans()) else b""
        parts.append(head + array + struct.pack("<Q", draw(LENGTHS)) + draw(st.binary(max_size=60)))
    return b"".join(parts)


@given(plausible(), st.integers(0, 8), st.lists(st.integers(min_value=0), max_size=4))
def test_plausible_bytes_give_a_result_or_a_plain_refusal(data: bytes, count: int, places: list[int]) -> None:
    try:
        header = read(*cut(gguf(count=count) + data, places))
    except BadHeader:
        return
    assert header is None or len(msgspec.json.encode(header)) < 4096


@given(st.integers(0, len(YARD[:17_000]) - 1), st.integers(0, 255))
def test_one_wrong_byte_in_a_real_header_does_no_harm(place: int, value: int) -> None:
    data = bytearray(YARD[:32_768])
    data[place] = value
    try:
        read(bytes(data))
    except BadHeader:
        return


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "F32"), (1, "F16"), (7, "Q8_0"), (15, "Q4_K_M"), (29, "IQ2_M"), (32, "BF16"), (5, "Unknown"), (99, "Unknown")],
)
def test_file_types_have_the_names_of_llama_cpp(number: int, name: str) -> None:
    assert quantization(number) == name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("", ""),
        ("apache-2.0", "apache-2.0"),
        ("Apache License, Version 2.0", "apache-2.0"),
        ("MIT", "mit"),
        ("The MIT License", "mit"),
        ("limited use", "limited use"),
        ("llama3", "llama-3-community"),
        ("llama3.1", "llama-3.1-community"),
        ("Llama 3.2 Community License", "llama-3.2-community"),
        ("llama-3.3", "llama-3.3-community"),
        ("llama2", "llama2"),
        ("llama30", "llama30"),
        ("Gemma Terms of Use", "gemma"),
        ("cc-by-nc-4.0", "cc-by-nc-4.0"),
        ("other\n" + "x" * 500, "other " + "x" * 58),
    ],
)
def test_common_licenses_have_one_spelling(written: str, name: str) -> None:
    assert license_name(written) == name


def test_a_number_of_the_largest_kind_is_read() -> None:
    pairs = (string("general.architecture", "a"), number("a.block_count", 3, U64), number("x", -1, I64))
    assert read(gguf(*pairs)) == msgspec.structs.replace(EMPTY, architecture="a", layer_count=3)
