"""Does a stored object already satisfy what we want? Decided without asking the API server.

The server may add fields (defaults, assigned addresses), and others may add entries to lists that have keys. What we
state must be there with an equal value. The server also drops zeros and respells quantities; neither is a difference.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from modelyard.core.quantities import quantity

Json = dict[str, Any]

_LIST_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "ownerReferences": ("uid",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort", "port", "protocol"),
}
_POINTERS: Final = frozenset(
    {
        "emptyDir",
        "automountServiceAccountToken",
        "allowPrivilegeEscalation",
        "runAsNonRoot",
        "privileged",
        "readOnlyRootFilesystem",
        "runAsUser",
        "runAsGroup",
        "fsGroup",
        "enableServiceLinks",
        "optional",
        "controller",
        "blockOwnerDeletion",
        "replicas",
        "minReplicas",
        "terminationGracePeriodSeconds",
        "stabilizationWindowSeconds",
        "defaultMode",
    }
)
"""Fields where zero, false or empty is a statement of its own and not the same as absent."""

_QUANTITY_PARENTS: Final = frozenset({"requests", "limits", "target", "capacity"})
_QUANTITY_FIELDS: Final = frozenset({"sizeLimit", "divisor", "tolerance"})

Path = tuple[str, ...]


def fingerprint(body: Json) -> str:
    """Return what changes whenever our intent does."""
    return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()[:16]


def first_difference(wanted: Json, live: Json) -> str | None:
    """Return the path of the first statement of ours that does not hold in the live object; None: all of them hold."""
    found = _difference(wanted, live, ())
    return ".".join(found) or "." if found is not None else None


def _difference(wanted: Any, live: Any, path: Path) -> Path | None:
    if isinstance(wanted, dict):
        return _dict_difference(wanted, live, path)
    if isinstance(wanted, list):
        return _list_difference(wanted, live, path)
    return None if wanted == live or _same_quantity(wanted, live, path) else path


def _dict_difference(wanted: Json, live: Any, path: Path) -> Path | None:
    if not isinstance(live, dict):
        return path
    for name, value in wanted.items():
        here = (*path, name)
        if name not in live:
            if name in _POINTERS or not _is_zero(value):
                return here
        elif (found := _difference(value, live[name], here)) is not None:
            return found
    return None


def _is_zero(value: Any) -> bool:
    return value in (None, "", 0, False) or (isinstance(value, (list, dict)) and not value)


def _list_difference(wanted: list[Any], live: Any, path: Path) -> Path | None:
    if not isinstance(live, list):
        return path
    keys = _LIST_KEYS.get(path[-1]) if path else None
    if keys is None or not all(isinstance(item, dict) for item in [*wanted, *live]):
        return _whole_difference(wanted, live, path)
    by_key = {_identity(item, keys): item for item in live}
    for item in wanted:
        identity = _identity(item, keys)
        here = _inside(path, identity[0] if identity else "")
        if identity not in by_key:
            return here
        if (found := _difference(item, by_key[identity], here)) is not None:
            return found
    return None


def _inside(path: Path, entry: object) -> Path:
    return (*path[:-1], f"{path[-1]}[{entry}]") if path else (f"[{entry}]",)


def _identity(item: Json, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(item[key] for key in keys if key in item)


def _whole_difference(wanted: list[Any], live: list[Any], path: Path) -> Path | None:
    if len(wanted) != len(live):
        return path
    pairs = enumerate(zip(wanted, live, strict=True))
    differences = (_difference(one, other, _inside(path, at)) for at, (one, other) in pairs)
    return next((found for found in differences if found is not None), None)


def _same_quantity(wanted: Any, live: Any, path: Path) -> bool:
    is_quantity = path and (path[-1] in _QUANTITY_FIELDS or (len(path) > 1 and path[-2] in _QUANTITY_PARENTS))
    try:
        return bool(is_quantity) and quantity(wanted) == quantity(live)
    except ValueError:
        return False
