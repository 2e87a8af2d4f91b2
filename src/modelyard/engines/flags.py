"""Command-line flags, one at a time.

A flag that has nothing to say is left out, so that no server is started with an empty argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

Args = tuple[str, ...]

EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - a server in a pod has to be reached from outside it


def flag(name: str, value: str | float | bool | None) -> Args:
    """Return one flag: alone for True, with its value for text and numbers, nothing for None, False and empty text."""
    if value is None or value is False or value == "":
        return ()
    return (name,) if value is True else (name, str(value))


def positive(value: int | None) -> int | None:
    """Return a number above zero; None for all others, which mean that the field was left out."""
    return value if value is not None and value > 0 else None


def each(name: str, values: Iterable[str]) -> Args:
    """Return one flag for every value."""
    return tuple(word for value in values for word in flag(name, value))


def value_of(args: Args, *spellings: str) -> str:
    """Return the value that arguments give to a flag; empty: none. The last one counts, as it does for servers."""
    found = ""
    for position, arg in enumerate(args):
        written, equals, value = arg.partition("=")
        if written in spellings:
            found = value if equals else "".join(args[position + 1 : position + 2])
    return found


def names(args: Iterable[str], *wanted: str) -> bool:
    """Whether arguments hold one of the flags, as `--name value` or as `--name=value`."""
    return any(arg in wanted or arg.startswith(tuple(f"{name}=" for name in wanted)) for arg in args)
