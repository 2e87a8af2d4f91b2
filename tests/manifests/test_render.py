"""Manifests as YAML."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from modelyard.manifests.render import documents


def test_long_text_is_folded_and_keys_are_sorted():
    text = documents([{"b": "one two three " * 20 + "end", "a": 1}])
    assert text.startswith("a: 1\nb: >-\n  one two three")
    assert len(text.splitlines()) > 3


def test_shared_parts_are_written_out_each_time():
    shared = {"deep": [1, 2]}
    assert "&" not in documents([{"a": shared, "b": shared}])


@pytest.mark.parametrize("text", ["12e34", "1.5E-7", "+.5", "0o17", "1."])
def test_text_that_kubectl_would_read_as_a_number_is_quoted(text: str):
    assert documents([{"commit": text}]) == f"commit: '{text}'\n"


def test_documents_are_separated():
    assert list(yaml.safe_load_all(documents([{"a": 1}, {"a": 2}]))) == [{"a": 1}, {"a": 2}]


@given(st.text(alphabet=st.sampled_from("ab :#'\"\n\t-é"), max_size=300))
def test_any_text_comes_back_as_it_was(text: str):
    assert yaml.safe_load(documents([{"text": text}])) == {"text": text}
