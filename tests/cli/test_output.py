"""Tables, ages, and the names of kinds on a command line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from modelyard.cluster.kind_names import SHORT_NAMES, UnknownKind, find_kinds, split_target
from modelyard.cluster.output import age, table
from modelyard.kinds import ALL
from modelyard.kinds.model.api import RESOURCE as MODEL

NOW = datetime(2026, 11, 16, 6, 0, tzinfo=UTC)


def test_columns_are_as_wide_as_their_widest_cell_and_an_empty_cell_is_a_dash() -> None:
    assert table(("A", "B"), [("long", ""), ("x", "y")]) == "A      B\nlong   -\nx      y\n"


def test_no_escape_sequence_of_a_server_reaches_the_terminal() -> None:
    assert "\x1b" not in table(("A",), [("red \x1b[31m",)])


@pytest.mark.parametrize(
    ("created", "shown"),
    [
        ("2026-11-16T05:59:59Z", "1s"),
        ("2026-11-16T05:58:00Z", "120s"),
        ("2026-11-16T05:50:00Z", "10m"),
        ("2026-11-16T00:00:00Z", "6h"),
        ("2026-11-10T06:00:00Z", "6d"),
        ("2026-11-16T06:00:05Z", "0s"),
        ("", ""),
    ],
)
def test_an_age_has_one_unit(created: str, shown: str) -> None:
    assert age(created, NOW) == shown


@pytest.mark.parametrize("word", ["model", "Model", "models", "mdl", "models.inference.llmkube.dev"])
def test_a_kind_has_the_names_that_kubectl_knows(word: str) -> None:
    assert find_kinds(word) == (MODEL,)


def test_every_kind_is_meant_by_no_word_and_by_all() -> None:
    assert find_kinds("") == find_kinds("all") == tuple(kind.resource for kind in ALL)


def test_the_list_of_kinds_says_what_the_kinds_say_themselves() -> None:
    assert {kind.resource: kind.short_names for kind in ALL} == SHORT_NAMES


def test_a_word_that_is_no_kind_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(UnknownKind, match=r"'modles' \(did you mean models\?\); the kinds are agents, .*models"):
        find_kinds("modles")


@pytest.mark.parametrize("text", ["model", "model/", "tiny"])
def test_a_target_is_a_kind_and_a_name(text: str) -> None:
    with pytest.raises(UnknownKind, match="is not KIND/NAME"):
        split_target(text)
