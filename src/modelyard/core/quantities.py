"""The values of Kubernetes quantities (`500m`, `2Gi`) and of Go durations (`1m30s`)."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

DURATION_PATTERN: Final = r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$"

AMOUNT_PATTERN: Final = r"^([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$"
"""A quantity that is not negative."""

_NUMBER: Final = r"([+-]?[0-9]*\.?[0-9]+|[+-]?[0-9]+\.)"
_QUANTITY: Final = re.compile(_NUMBER + r"(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?")
_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000 ** (power + 1)) for power, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024 ** (power + 1)) for power, suffix in enumerate("KMGTPE")},
}
_MEBI: Final = 1024 * 1024
_REMEMBERED: Final = 4096
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


# The same few amounts are compared again and again, and a reader of hundreds of hosts compares those of all of them.
@lru_cache(_REMEMBERED, typed=True)
def quantity(text: str | int | float) -> Fraction:
    """Return the exact value of a quantity such as `500m` or `2Gi`; ValueError: it is none."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a quantity such as 500m, 2 or 4Gi")
    number, suffix = match.groups(default="")
    if suffix in _SUFFIXES:
        return Fraction(number) * _SUFFIXES[suffix]
    return Fraction(number) * Fraction(10) ** int(suffix[1:])


def mebibytes(amount: int) -> str:
    """Return an amount of bytes as a quantity, rounded down to `Mi`."""
    return f"{amount // _MEBI}Mi"


def seconds(duration: str) -> float:
    """Return the seconds of a duration such as `30s` or `1m30s`; ValueError: it is none."""
    if not re.fullmatch(DURATION_PATTERN, duration):
        raise ValueError(f"{duration!r} is not a duration such as 30s or 1m30s")
    return sum(float(n) * _SECONDS[unit] for n, _, unit in re.findall(r"([0-9]+(\.[0-9]+)?)(ns|us|ms|s|m|h)", duration))
