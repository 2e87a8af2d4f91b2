"""Which files of a repository are meant."""

from __future__ import annotations

import time

import pytest

from modelyard.core.exitcodes import Code
from modelyard.weights.choose import choose, is_split
from modelyard.weights.failures import FetchFailed

SPLIT = tuple(f"q4/m-0000{number}-of-00003.gguf" for number in (1, 2, 3))


def refusal(names: tuple[str, ...], picked: tuple[str, ...] = (), *, everything: bool = False) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        choose(names, picked, everything=everything)
    return caught.value


def test_the_only_gguf_is_taken() -> None:
    assert choose(("README.md", "m.gguf"), ()) == ("m.gguf",)


def test_the_parts_of_a_split_file_go_together() -> None:
    assert choose(("README.md", *reversed(SPLIT)), ()) == SPLIT
    assert choose(("other.gguf", *SPLIT), (SPLIT[1],)) == SPLIT


def test_of_several_somebody_has_to_choose() -> None:
    refused = refusal(("a.gguf", "b.gguf", *SPLIT))
    assert refused.code is Code.REFUSED
    assert "a.gguf, b.gguf, q4/m-00001-of-00003.gguf" in refused.remedy
    assert choose(("a.gguf", "b.gguf"), ("b.gguf", "b.gguf")) == ("b.gguf",)


def test_what_was_picked_must_exist() -> None:
    assert refusal(("a.gguf",), ("c.gguf",)).code is Code.NOT_FOUND


def test_a_split_file_with_a_hole_is_refused() -> None:
    refused = refusal(SPLIT[:2])
    assert (refused.code, SPLIT[2] in refused.message) == (Code.NOT_FOUND, True)


def test_a_repository_without_gguf_needs_a_choice() -> None:
    assert refusal(("config.json",)).code is Code.REFUSED
    assert choose(("config.json", "m.safetensors"), ("m.safetensors", "config.json")) == (
        "m.safetensors",
        "config.json",
    )


def test_everything_is_what_an_engine_may_read() -> None:
    assert choose(("b.gguf", "a.bin", ".gitattributes", ".github/x.yaml"), (), everything=True) == ("a.bin", "b.gguf")
    assert refusal((".gitignore", "manifest.json"), everything=True).code is Code.NOT_FOUND


def test_of_weights_in_several_formats_only_safetensors_are_taken() -> None:
    others = ("m.bin", "m.pt", "m.pth", "m.msgpack", "m.h5", "sub/m.ONNX", "m.gguf", "original/params.json")
    names = ("config.json", "m.safetensors", "tokenizer.model")
    assert choose((*others, *names), (), everything=True) == names


def test_safetensors_among_the_originals_replace_nothing() -> None:
    names = ("m.bin", "original/m.safetensors")
    assert choose(names, (), everything=True) == names


def test_one_part_of_one_is_not_split() -> None:
    assert [is_split(name) for name in ("m.gguf", "m-00001-of-00001.gguf", SPLIT[0])] == [False, False, True]


def test_long_lists_are_cut() -> None:
    assert refusal(tuple(f"{number:03}.gguf" for number in range(50))).remedy.endswith("and 30 more")


def test_a_thousand_files_that_claim_a_hundred_thousand_parts_are_looked_through_at_once() -> None:
    claims = tuple(f"m{number}-00001-of-99999.gguf" for number in range(1000))
    began = time.process_time()
    assert refusal(claims).code is Code.REFUSED
    assert time.process_time() - began < 5.0


def test_names_that_steer_a_terminal_are_not_passed_on() -> None:
    assert "pick with --file: a[2J.gguf, b c.gguf" in refusal(("a\x1b[2J.gguf", "b\nc.gguf")).remedy
