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
"""Fields where zero or false is a statement of its own and not the same as absent."""

_QUANTITY_PARENTS: Final = frozenset({"requests", "limits", "target", "capacity"})
_QUANTITY_FIELDS: Final = frozenset({"sizeLimit"})


def fingerprint(body: Json) -> str:
    """Return what changes whenever our intent does."""
    return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()[:16]


def first_difference(wanted: Any, live: Any, path: str = "") -> str | None:
    """Return the path of the first statement of ours that does not hold in the live object; None: all of them hold."""
    if isinstance(wanted, dict):
        return _dict_difference(wanted, live, path)
    if isinstance(wanted, list):
        return _list_difference(wanted, live, path)
    return None if wanted == live or _same_quantity(wanted, live, path) else path or "."


def _dict_difference(wanted: Json, live: Any, path: str) -> str | None:
    if not isinstance(live, dict):
        return path
    for name, value in wanted.items():
        here = f"{path}.{name}" if path else name
        if name not in live:
            if name in _POINTERS or not _is_zero(value):
                return here
        elif found := first_difference(value, live[name], here):
            return found
    return None


def _is_zero(value: Any) -> bool:
    return value in (None, "", 0, False) or (isinstance(value, (list, dict)) and not value)


def _list_difference(wanted: list[Any], live: Any, path: str) -> str | None:
    if not isinstance(live, list):
        return path
    keys = _LIST_KEYS.get(path.rsplit(".", 1)[-1])
    if keys is None or not all(isinstance(item, dict) for item in [*wanted, *live]):
        return _whole_difference(wanted, live, path)
    by_key = {_identity(item, keys): item for item in live}
    for item in wanted:
        identity = _identity(item, keys)
        here = f"{path}[{identity[0]}]"
        if identity not in by_key:
            return here
        if found := first_difference(item, by_key[identity], here):
            return found
    return None


def _identity(item: Json, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(item[key] for key in keys if key in item)


def _whole_difference(wanted: list[Any], live: list[Any], path: str) -> str | None:
    if len(wanted) != len(live):
        return path
    pairs = zip(wanted, live, strict=True)
    return next((found for at, (a, b) in enumerate(pairs) if (found := first_difference(a, b, f"{path}[{at}]"))), None)


def _same_quantity(wanted: Any, live: Any, path: str) -> bool:
    parts = path.split(".")
    if not (parts[-1] in _QUANTITY_FIELDS or (len(parts) > 1 and parts[-2] in _QUANTITY_PARENTS)):
        return False
    try:
        return quantity(wanted) == quantity(live)
    except ValueError:
        return False
