"""All the places of a manifest where something is stated, and copies that differ in one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core.diff import first_difference
from modelyard.core.field_types import FIELDS, ROOTS

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str | int, ...]

_CUSTOM = "a custom resource"
_ZEROS = ("", 0, False, None, [], {})


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


def zeros(body: Any) -> Iterator[Path]:
    """Return the path of every leaf that is empty, false or zero."""
    yield from (path for path in leaves(body) if at(body, path) in _ZEROS)


def at(body: Any, path: Path) -> Any:
    """Return what stands at a path."""
    for step in path:
        body = body[step]
    return body


def holds(body: Any, path: Path) -> bool:
    """Return whether anything but null stands at a path."""
    try:
        return at(body, path) is not None
    except (KeyError, IndexError, TypeError):
        return False


def changed(body: Any, path: Path, value: Any) -> Any:
    """Return a copy with another value at a path. All that lies elsewhere is shared with the original."""
    step, *rest = path
    copy = body.copy()
    copy[step] = changed(body[step], tuple(rest), value) if rest else value
    return copy


def removed(body: Any, path: Path) -> Any:
    """Return a copy with nothing at a path. All that lies elsewhere is shared with the original."""
    *above, last = path
    holder = at(body, tuple(above)).copy()
    del holder[last]
    return changed(body, tuple(above), holder) if above else holder


def counterpart(wanted: Any, live: Any, path: Path) -> Path:
    """Return where in the stored object that stands which is stated at a path: lists with keys may be in any order."""
    found: list[str | int] = []
    for place, step in enumerate(path):
        there = _entry(at(wanted, path[: place + 1]), live, declared(wanted, path[:place])) if live else None
        found.append(step if there is None else there)
        live = live[found[-1]] if holds(live, (found[-1],)) else None
    return tuple(found)


def _entry(wanted: Any, live: Any, expression: str) -> int | None:
    keys = expression.removeprefix("[").partition("]")[0] if expression.startswith("[") else ""
    if not keys or keys == "set":
        return live.index(wanted) if keys else None
    names = (key.partition("=") for key in keys.split(","))
    identity = {name: wanted.get(name, default) for name, _, default in names}
    return next(number for number, item in enumerate(live) if identity.items() <= item.items())


def declared(body: Any, path: Path) -> str:
    """Return the type of what stands at a path, as `field_types.py` writes it; `*`: absence is something else."""
    expression = ROOTS.get((body.get("apiVersion"), body.get("kind")), _CUSTOM)
    for step in path:
        expression = _inside(expression.removeprefix("*"), step)
    return expression


def _inside(expression: str, step: str | int) -> str:
    if expression == _CUSTOM:
        return "meta.v1.ObjectMeta" if step == "metadata" else "*any"
    if expression == "any":
        return "*any"
    if isinstance(step, int):
        return "*" + expression.partition("]")[2]
    if expression.startswith("{"):
        return "*" + expression.partition("}")[2]
    return FIELDS[expression].get(step, "")


def may_be_absent(wanted: Any, path: Path) -> bool:
    """Return whether absence is the same as what is stated: a zero in no pointer, map or list, or nothing but such."""
    value = at(wanted, path)
    if declared(wanted, path).startswith("*"):
        return False
    return value in _ZEROS or (isinstance(value, dict) and all(may_be_absent(wanted, (*path, name)) for name in value))


def overlooked(wanted: Any, live: Any) -> list[str]:
    """Return the changes to a stored object that would not be put back."""
    return [what for what, broken in _breakages(wanted, live) if first_difference(wanted, broken) is None]


def _breakages(wanted: Any, live: Any) -> Iterator[tuple[str, Any]]:
    for path in leaves(wanted):
        there = counterpart(wanted, live, path)
        if holds(live, there[:-1]):
            yield f"{there} changed", changed(live, there, "something else")
    for path in places(wanted):
        if not may_be_absent(wanted, path):
            there = counterpart(wanted, live, path)
            yield f"{there} removed", removed(live, there)
