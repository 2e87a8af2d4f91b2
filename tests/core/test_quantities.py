"""What quantities and durations are worth."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.core.quantities import quantity, seconds


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1024Ki", "1Mi"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1000m", "1"),
        (2, "2"),
        (0.5, "500m"),
        ("1e3", "1k"),
        ("1E3", "1000"),
        ("1e-3", "1m"),
        ("12e+2", "1200"),
        ("1000k", "1M"),
        ("1E", "1000P"),
        ("1Ei", "1024Pi"),
        (".5", "0.5"),
        ("5.", "5"),
        ("+1", "1"),
        ("-1", "-1000m"),
        ("1000n", "1u"),
        ("1000u", "1m"),
        ("0", "0Gi"),
        ("0100", "100"),
    ],
)
def test_two_spellings_of_one_amount_are_equal(one: str | float, other: str):
    assert quantity(one) == quantity(other)


@pytest.mark.parametrize(("one", "other"), [("1M", "1Mi"), ("1", "1m"), ("1k", "1Ki"), ("1", "-1"), ("1E", "1e1")])
def test_amounts_that_look_alike_are_told_apart(one: str, other: str):
    assert quantity(one) != quantity(other)


def test_no_precision_is_lost():
    assert quantity("0.000000001") == Fraction(1, 10**9)
    assert quantity("9007199254740993") == 9007199254740993


@pytest.mark.parametrize(
    "text", ["", "Gi", "1 Gi", "1GiB", "one", "1K", "1mi", "--1", "1e", "1e3Gi", "1,5", " 1", "1\n", "0x10", True, "."]
)
def test_what_is_no_quantity_is_refused(text: str):
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity(text)


@given(st.integers(-(10**15), 10**15), st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_a_number_counts_as_often_as_its_suffix_says(number: int, suffix: str):
    assert quantity(f"{number}{suffix}") == number * quantity(f"1{suffix}")


@pytest.mark.parametrize(
    ("text", "length"),
    [("30s", 30), ("1m30s", 90), ("1h", 3600), ("0s", 0), ("250ms", 0.25), ("1.5h", 5400), ("1h1m1s1ms", 3661.001)],
)
def test_a_duration_is_the_sum_of_its_parts(text: str, length: float):
    assert seconds(text) == pytest.approx(length)


@pytest.mark.parametrize("text", ["", "30", "s", "1d", "-1s", "1s ", "1 s", "1s\n", "1.s", "forever"])
def test_what_is_no_duration_is_refused(text: str):
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(text)
