"""Which files of a repository are meant."""

from __future__ import annotations

import pytest

from modelyard.weights.choose import choose
from modelyard.weights.codes import Code, FetchFailed

SPLIT = tuple(f"q4/m-0000{number}-of-00003.gguf" for number in (1, 2, 3))


def refusal(names: tuple[str, ...], picked: tuple[str, ...] = ()) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        choose(names, picked)
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


def test_long_lists_are_cut() -> None:
    assert refusal(tuple(f"{number:03}.gguf" for number in range(50))).remedy.endswith("and 30 more")
