"""Does a stored object already satisfy what we want? Decided without asking the API server.

`runtime/apply.py` asks it for every child at every look, `kinds/inferenceservice` to find the pods of a template. The
server may add fields (defaults, assigned addresses), and others may add entries to lists that have keys. What we state
must be there with an equal value. The server also drops zeros and respells quantities; neither is a difference. Which
zeros it drops is a matter of the field's type, so the comparison follows the server's own types (`field_types.py`):

    a pointer            zero is a statement: `ready: false` is not the same as no `ready`
    any other field      zero, false, empty and absent are the same
    an entry of a map    always a statement: the label `a: ""` is not the same as no label
    a map as a whole     nothing may be added where it has one owner, as to the selector of a Service
    a custom resource    has no Go type: the server keeps all that its schema knows, zeros too

Of a custom resource, lists are compared whole: its schema, which may give them keys, is not known here.

The counterpart in Kubernetes is `equality.Semantic.DeepDerivative`, which takes every zero for no statement.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec import Struct

from modelyard.core.field_types import FIELDS, ROOTS
from modelyard.core.quantities import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]


def fingerprint(body: Json) -> str:
    """Return what changes whenever our intent does."""
    return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()[:16]


def first_difference(wanted: Json, live: Json) -> str | None:
    """Return the path of the first statement of ours that does not hold in the live object; None: all of them hold.

    `wanted` says with its `apiVersion` and `kind` which type both are compared as.
    """
    return next(all_differences(wanted, live), None)


def all_differences(wanted: Json, live: Json) -> Iterator[str]:
    """Yield the path of every statement of ours that does not hold in the live object, for `modelyard plan --live`."""
    root = _root(wanted.get("apiVersion", ""), wanted.get("kind", ""))
    return (found.removeprefix(".") or "." for found in root.differences(wanted, live))


class _Type(Protocol):
    """How values of one type are compared."""

    def differences(self, wanted: Any, live: Any) -> Iterator[str]:
        """Yield the paths from here to what differs; an empty path: it is this value."""

    def is_zero(self, wanted: Any) -> bool:
        """Return whether a field of this type that is no pointer is left out when it holds this value."""


class _Field(Struct, frozen=True):
    """The type of a field, and whether the server remembers that its zero was written."""

    type: _Type
    keeps_zero: bool = False


class _Scalar(Struct, frozen=True):
    """A string, a number or a boolean."""

    def differences(self, wanted: Any, live: Any) -> Iterator[str]:
        if wanted != live:
            yield ""

    def is_zero(self, wanted: Any) -> bool:
        return not wanted


class _Quantity(_Scalar, frozen=True):
    """A number with a unit, which the server spells in its own way."""

    def differences(self, wanted: Any, live: Any) -> Iterator[str]:
        if wanted != live and not _is_same_amount(wanted, live):
            yield ""


class _Mapping(Struct, frozen=True):
    """A JSON object of which some fields have types of their own: a struct, a map, a custom resource."""

    fields: dict[str, _Field]
    others: _Field

    def differences(self, wanted: Any, live: Any) -> Iterator[str]:
        if not isinstance(wanted, dict) or not isinstance(live, dict):
            yield ""
            return
        for name, value in wanted.items():
            there = live.get(name)
            # Most of what is unequal has only got defaults. What is equal need not be walked through.
            if value == there:
                continue
            field = self.fields.get(name, self.others)
            if there is None:
                if field.keeps_zero or not field.type.is_zero(value):
                    yield f".{name}"
                continue
            for found in field.type.differences(value, there):
                yield f".{name}{found}"

    def is_zero(self, wanted: Any) -> bool:
        return wanted is None or next(self.differences(wanted, {}), None) is None


class _WholeMap(_Mapping, frozen=True):
    """A map that has one owner: nothing may be added to it."""

    def differences(self, wanted: Any, live: Any) -> Iterator[str]:
        yield from super().differences(wanted, live)
        if isinstance(wanted, dict) and isinstance(live, dict):
            yield from (f".{name}" for name in sorted(live.keys() - wanted.keys()))

    def is_zero(self, wanted: Any) -> bool:
        return not wanted


class _WholeList(Struct, frozen=True):
    """A list that has one owner: nothing may be added to it, and the order counts."""

    items: _Type

    def differences(self, wanted: Any, live: Any) -> Iterator[str]:
        if not isinstance(wanted, list) or not isinstance(live, list) or len(wanted) != len(live):
            yield ""
            return
        for at, (value, there) in enumerate(zip(wanted, live, strict=True)):
            if value != there:
                for found in self.items.differences(value, there):
                    yield f"[{at}]{found}"

    def is_zero(self, wanted: Any) -> bool:
        return not wanted


class _KeyedList(Struct, frozen=True):
    """A list to which others may add entries, because a key tells whose is whose."""

    items: _Type
    keys: dict[str, str | None]
    """The fields that make up the key, and what the server takes for one that is left out."""

    def differences(self, wanted: Any, live: Any) -> Iterator[str]:
        if not isinstance(wanted, list) or not isinstance(live, list):
            yield ""
            return
        entries = {self._key(there): there for there in live}
        for value in wanted:
            key = self._key(value)
            if key not in entries:
                yield f"[{key[0]}]"
                continue
            for found in self.items.differences(value, entries[key]):
                yield f"[{key[0]}]{found}"

    def is_zero(self, wanted: Any) -> bool:
        return not wanted

    def _key(self, entry: Json) -> tuple[Any, ...]:
        return tuple([entry.get(name) or default for name, default in self.keys.items()])


class _Set(Struct, frozen=True):
    """A list of scalars to which others may add."""

    def differences(self, wanted: Any, live: Any) -> Iterator[str]:
        if not isinstance(wanted, list) or not isinstance(live, list):
            yield ""
            return
        for value in wanted:
            if value not in live:
                yield f"[{value}]"

    def is_zero(self, wanted: Any) -> bool:
        return not wanted


class _Untyped(_Scalar, frozen=True):
    """Any JSON value. Nothing of it is dropped, not even a zero."""

    def differences(self, wanted: Any, live: Any) -> Iterator[str]:
        if isinstance(wanted, dict):
            return _UNTYPED_MAPPING.differences(wanted, live)
        if isinstance(wanted, list):
            return _UNTYPED_LIST.differences(wanted, live)
        return super().differences(wanted, live)


def _is_same_amount(wanted: Any, live: Any) -> bool:
    try:
        return quantity(wanted) == quantity(live)
    except ValueError:
        return False


_SCALAR: Final = _Scalar()
_UNTYPED: Final = _Untyped()
_UNTYPED_MAPPING: Final = _Mapping({}, _Field(_UNTYPED, keeps_zero=True))
_UNTYPED_LIST: Final = _WholeList(_UNTYPED)


@cache
def _root(api_version: str, kind: str) -> _Type:
    if name := ROOTS.get((api_version, kind)):
        return _type(name)
    return _Mapping({"metadata": _field("meta.v1.ObjectMeta")}, _UNTYPED_MAPPING.others)


def _field(expression: str, *, shared: bool = True) -> _Field:
    return _Field(_type(expression.removeprefix("*"), shared=shared), keeps_zero=expression.startswith("*"))


@cache
def _type(expression: str, *, shared: bool = True) -> _Type:
    """Return the type that `field_types.py` writes like this; shared: others may have a part in it."""
    if expression.startswith("["):
        keys, _, items = expression.removeprefix("[").partition("]")
        return _list(keys, items, shared=shared)
    if expression.startswith("{"):
        whole, _, held = expression.removeprefix("{").partition("}")
        return (_WholeMap if whole else _Mapping)({}, _Field(_type(held, shared=shared), keeps_zero=True))
    if expression in _PRIMITIVES:
        return _PRIMITIVES[expression]
    fields = {name: _field(inner, shared=shared) for name, inner in FIELDS[expression].items()}
    return _Mapping(fields, _Field(_SCALAR))


def _list(keys: str, items: str, *, shared: bool) -> _Type:
    # What is inside of a list with one owner has that owner too, keys or not. If others could add to the addresses of
    # an endpoint, they would get its traffic.
    if not keys or not shared:
        return _WholeList(_type(items, shared=False))
    if keys == "set":
        return _Set()
    names = (key.partition("=") for key in keys.split(","))
    return _KeyedList(_type(items), {name: default or None for name, _, default in names})


_PRIMITIVES: Final[dict[str, _Type]] = {"": _SCALAR, "quantity": _Quantity(), "any": _UNTYPED}
