"""Flags, one at a time."""

from __future__ import annotations

import pytest

from modelyard.engines.flags import Args, each, flag, names, positive


@pytest.mark.parametrize(
    ("value", "args"),
    [
        (None, ()),
        (False, ()),
        ("", ()),
        (True, ("--x",)),
        ("on", ("--x", "on")),
        (0, ("--x", "0")),
        (1, ("--x", "1")),
        (0.9, ("--x", "0.9")),
        (0.85, ("--x", "0.85")),
    ],
)
def test_a_flag_says_what_there_is_to_say(value: str | float | bool | None, args: Args):
    assert flag("--x", value) == args


@pytest.mark.parametrize(("value", "kept"), [(None, None), (-1, None), (0, None), (1, 1)])
def test_only_numbers_above_zero_are_positive(value: int | None, kept: int | None):
    assert positive(value) == kept


def test_each_value_has_a_flag_of_its_own_and_empty_ones_have_none():
    assert each("--x", ["a", "", "b"]) == ("--x", "a", "--x", "b")


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (["--host", "::"], True),
        (["--host=::"], True),
        (["--host="], True),
        (["--hostname", "::"], False),
        (["-host"], False),
        (["x", "--other", "--host"], True),
        ([], False),
    ],
)
def test_a_flag_is_found_alone_or_with_its_value(args: list[str], found: bool):
    assert names(args, "--host") is found


def test_any_of_several_spellings_is_found():
    assert names(["-m", "x"], "--model", "-m")
