"""All the places of a manifest where something is stated, and copies that differ in one of them."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from modelyard.core.diff import _LIST_KEYS, _POINTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str | int, ...]


def leaves(body: Any, path: Path = ()) -> Iterator[Path]:
    """Return the path of every value that is neither a mapping nor a list with something in it."""
    if isinstance(body, dict) and body:
        for name, value in body.items():
            yield from leaves(value, (*path, name))
    elif isinstance(body, list) and body:
        for at, value in enumerate(body):
            yield from leaves(value, (*path, at))
    else:
        yield path


def places(body: Any) -> Iterator[Path]:
    """Return the path of everything that is stated: leaves, and the mappings and lists that hold them."""
    yield from dict.fromkeys(path[:length] for path in leaves(body) for length in range(1, len(path) + 1))


def at(body: Any, path: Path) -> Any:
    """Return what stands at a path."""
    for step in path:
        body = body[step]
    return body


def changed(body: Any, path: Path, value: Any) -> Any:
    """Return a copy with another value at a path."""
    copy = deepcopy(body)
    at(copy, path[:-1])[path[-1]] = value
    return copy


def removed(body: Any, path: Path) -> Any:
    """Return a copy with nothing at a path."""
    copy = deepcopy(body)
    del at(copy, path[:-1])[path[-1]]
    return copy


def counterpart(wanted: Any, live: Any, path: Path) -> Path:
    """Return where in the stored object that stands which is stated at a path: lists with keys may be in any order."""
    found: list[str | int] = []
    for place, step in enumerate(path):
        there = _entry(wanted[step], live, str(path[place - 1])) if isinstance(step, int) else step
        found.append(step if there is None else there)
        if place < len(path) - 1:
            wanted, live = wanted[step], live[found[-1]]
    return tuple(found)


def _entry(wanted: Any, live: list[Any], name: str) -> int | None:
    keys = _LIST_KEYS.get(name)
    if keys is None or not isinstance(wanted, dict):
        return None
    identity = {key: wanted[key] for key in keys if key in wanted}
    return next(number for number, item in enumerate(live) if identity.items() <= item.items())


def may_be_absent(wanted: Any, path: Path) -> bool:
    """Return whether absence is the same as what is stated: the API server drops zeros that are not pointers."""
    return at(wanted, path) in ("", 0, False, None, [], {}) and path[-1] not in _POINTERS
