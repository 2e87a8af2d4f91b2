"""The names of kinds on a command line, as kubectl takes them: kind, plural, short name, or plural with its group."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from modelyard.core.errors import ModelyardError
from modelyard.kinds import ALL

if TYPE_CHECKING:
    from modelyard.kinds.contract import Kind

EVERY: Final = "all"


class UnknownKind(ModelyardError):
    """A word on the command line names no kind of ours."""


def find_kinds(words: str) -> tuple[Kind, ...]:
    """Return the kinds that words with commas in between name; empty or `all`: every kind."""
    if words in ("", EVERY):
        return ALL
    return tuple(dict.fromkeys(find_kind(word) for word in words.split(",")))


def find_kind(word: str) -> Kind:
    """Return the kind that one word names."""
    found = _BY_NAME.get(word.lower())
    if found is None:
        raise UnknownKind(f"there is no kind {word!r}{_meant(word)}; the kinds are {', '.join(KNOWN)}")
    return found


def split_target(text: str) -> tuple[Kind, str]:
    """Return the kind and the name of KIND/NAME."""
    kind, slash, name = text.partition("/")
    if not slash or not name:
        raise UnknownKind(f"{text!r} is not KIND/NAME, such as model/tiny")
    return find_kind(kind), name


def _names(kind: Kind) -> tuple[str, ...]:
    resource = kind.resource
    return kind.name, resource.plural, resource.label, f"{kind.name}.{resource.group}", *kind.short_names


def _meant(word: str) -> str:
    close = get_close_matches(word.lower(), _BY_NAME, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


_BY_NAME: Final = {name: kind for kind in ALL for name in _names(kind)}
KNOWN: Final = sorted(kind.resource.plural for kind in ALL)
"""The plurals of all kinds."""
