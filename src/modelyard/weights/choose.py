"""Which files of a repository are meant. Pure.

A repository usually holds the same model many times over, in many sizes. One GGUF is taken; of several, somebody has
to choose. The parts of a split file are one file to us: an engine needs all of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from modelyard.weights.codes import Code, FetchFailed

if TYPE_CHECKING:
    from collections.abc import Iterable

_PART: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_SHOWN: Final = 20


def choose(available: Iterable[str], picked: Iterable[str]) -> tuple[str, ...]:
    """Return the names to fetch, the one to serve first."""
    names = sorted(available)
    if wanted := tuple(dict.fromkeys(picked)):
        return tuple(dict.fromkeys(part for name in wanted for part in _parts(_existing(name, names), names)))
    whole = [name for name in names if name.lower().endswith(".gguf") and _is_first(name)]
    if not whole:
        raise FetchFailed(Code.REFUSED, "the repository holds no GGUF file", f"pick with --file: {_listed(names)}")
    if len(whole) > 1:
        raise FetchFailed(Code.REFUSED, "the repository holds several models", f"pick with --file: {_listed(whole)}")
    return _parts(whole[0], names)


def _existing(name: str, names: list[str]) -> str:
    if name not in names:
        message = f"the repository holds no file {name!r}"
        raise FetchFailed(Code.NOT_FOUND, message, f"choose one of {_listed(names)}")
    return name


def _is_first(name: str) -> bool:
    found = _PART.fullmatch(name)
    return found is None or int(found["number"]) == 1


def _parts(name: str, names: list[str]) -> tuple[str, ...]:
    found = _PART.fullmatch(name)
    if not found:
        return (name,)
    count = int(found["count"])
    ending = name[found.end("number") :]
    parts = tuple(f"{found['stem']}-{number:05d}{ending}" for number in range(1, count + 1))
    if missing := sorted(set(parts) - set(names)):
        message = f"the split file {name!r} lacks {_listed(missing)}"
        raise FetchFailed(Code.NOT_FOUND, message, "complete the repository, or pick another file")
    return parts


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "nothing") + more
