"""Does a stored object already satisfy what we want? Decided without asking the API server.

`runtime/apply.py` asks it for every child at every look, `kinds/inferenceservice` to find the pods of a template. The
server may add fields (defaults, assigned addresses), and others may add entries to lists that have keys. What we state
must be there with an equal value. The server also drops zeros and respells quantities; neither is a difference. Which
zeros it drops is a matter of the field's type, so the comparison follows the server's own types (`field_types.py`):

    a pointer            zero is a statement: `ready: false` is not the same as no `ready`
    any other field      zero, false, empty and absent are the same
    an entry of a map    always a statement: the label `a: ""` is not the same as no label
    a custom resource    has no Go type: the server keeps all that its schema knows, zeros too

Of a custom resource, lists are compared whole: its schema, which may give them keys, is not known here.

The counterpart in Kubernetes is `equality.Semantic.DeepDerivative`, which takes every zero for no statement.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from modelyard.core.field_types import FIELDS, ROOTS
from modelyard.core.quantities import quantity

Json = dict[str, Any]


def fingerprint(body: Json) -> str:
    """Return what changes whenever our intent does."""
    return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()[:16]


def first_difference(wanted: Json, live: Json) -> str | None:
    """Return the path of the first statement of ours that does not hold in the live object; None: all of them hold.

    `wanted` says with its `apiVersion` and `kind` which type both are compared as.
    """
    found = _root(wanted.get("apiVersion", ""), wanted.get("kind", "")).difference(wanted, live)
    return None if found is None else found.removeprefix(".") or "."


class _Type(Protocol):
    """How values of one type are compared."""

    def difference(self, wanted: Any, live: Any) -> str | None:
        """Return the path from here to the first difference, empty if it is here; None: there is none."""

    def is_zero(self, wanted: Any) -> bool:
        """Return whether a field of this type that is no pointer is left out when it holds this value."""


class _Field(Struct, frozen=True):
    """The type of a field, and whether the server remembers that its zero was written."""

    type: _Type
    keeps_zero: bool = False


class _Scalar(Struct, frozen=True):
    """A string, a number or a boolean."""

    def difference(self, wanted: Any, live: Any) -> str | None:
        return None if wanted == live else ""

    def is_zero(self, wanted: Any) -> bool:
        return not wanted


class _Quantity(_Scalar, frozen=True):
    """A number with a unit, which the server spells in its own way."""

    def difference(self, wanted: Any, live: Any) -> str | None:
        try:
            return None if wanted == live or quantity(wanted) == quantity(live) else ""
        except ValueError:
            return ""


class _Mapping(Struct, frozen=True):
    """A JSON object of which some fields have types of their own: a struct, a map, a custom resource."""

    fields: dict[str, _Field]
    others: _Field

    def difference(self, wanted: Any, live: Any) -> str | None:
        if not isinstance(wanted, dict) or not isinstance(live, dict):
            return ""
        for name, value in wanted.items():
            there = live.get(name)
            # Most of what is unequal has only got defaults. What is equal need not be walked through.
            if value == there:
                continue
            field = self.fields.get(name, self.others)
            if there is None:
                if field.keeps_zero or not field.type.is_zero(value):
                    return f".{name}"
            elif (found := field.type.difference(value, there)) is not None:
                return f".{name}{found}"
        return None

    def is_zero(self, wanted: Any) -> bool:
        return wanted is None or self.difference(wanted, {}) is None


class _WholeList(Struct, frozen=True):
    """A list that has one owner: nothing may be added to it, and the order counts."""

    items: _Type

    def difference(self, wanted: Any, live: Any) -> str | None:
        if not isinstance(wanted, list) or not isinstance(live, list) or len(wanted) != len(live):
            return ""
        for at, (value, there) in enumerate(zip(wanted, live, strict=True)):
            if value != there and (found := self.items.difference(value, there)) is not None:
                return f"[{at}]{found}"
        return None

    def is_zero(self, wanted: Any) -> bool:
        return not wanted


class _KeyedList(Struct, frozen=True):
    """A list to which others may add entries, because a key tells whose is whose."""

    items: _Type
    keys: dict[str, str | None]
    """The fields that make up the key, and what the server takes for one that is left out."""

    def difference(self, wanted: Any, live: Any) -> str | None:
        if not isinstance(wanted, list) or not isinstance(live, list):
            return ""
        entries = {self._key(there): there for there in live}
        for value in wanted:
            key = self._key(value)
            if key not in entries:
                return f"[{key[0]}]"
            if (found := self.items.difference(value, entries[key])) is not None:
                return f"[{key[0]}]{found}"
        return None

    def is_zero(self, wanted: Any) -> bool:
        return not wanted

    def _key(self, entry: Json) -> tuple[Any, ...]:
        return tuple([entry.get(name) or default for name, default in self.keys.items()])


class _Set(Struct, frozen=True):
    """A list of scalars to which others may add."""

    def difference(self, wanted: Any, live: Any) -> str | None:
        if not isinstance(wanted, list) or not isinstance(live, list):
            return ""
        return next((f"[{value}]" for value in wanted if value not in live), None)

    def is_zero(self, wanted: Any) -> bool:
        return not wanted


class _Untyped(_Scalar, frozen=True):
    """Any JSON value. Nothing of it is dropped, not even a zero."""

    def difference(self, wanted: Any, live: Any) -> str | None:
        if isinstance(wanted, dict):
            return _UNTYPED_MAPPING.difference(wanted, live)
        if isinstance(wanted, list):
            return _UNTYPED_LIST.difference(wanted, live)
        return None if wanted == live else ""


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
    if expression.startswith("{}"):
        return _Mapping({}, _Field(_type(expression.removeprefix("{}"), shared=shared), keeps_zero=True))
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
