"""The managedFields of a child: turn our Update entries into an Apply entry. `runtime/apply.py` calls it.

After a POST, the entry of the field manager has the operation Update, and a later server-side apply by the same manager
would never remove fields that it no longer states. Rewritten once as an Apply entry, it does.
"""

from __future__ import annotations

from typing import Any, Final

from modelyard.core.names import FIELD_MANAGER

Json = dict[str, Any]

_NOT_AN_OPERATOR: Final = ("kubectl", "kube-controller-manager", "kube-scheduler", "kubelet")


def as_applied(entries: list[Json], *, takeover: bool) -> list[Json] | None:
    """Return the managedFields to store before the first apply; None: nothing has to change.

    `takeover`: the child was written by an earlier operator for the same owner. Its entries become ours. Otherwise
    nothing that it wrote could ever be removed.
    """
    turned = [entry for entry in entries if _is_ours(entry, takeover)]
    if not turned:
        return None
    fields: Json = {}
    for entry in [*(e for e in entries if _is_our_apply(e)), *turned]:
        fields = _union(fields, entry.get("fieldsV1", {}))
    # With f:replicas in it, the next apply (which never states replicas) would reset the number to its default, 1.
    spec = {name: value for name, value in fields.get("f:spec", {}).items() if name != "f:replicas"}
    fields = {**fields, "f:spec": spec} if spec else fields
    applied = {**turned[0], "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
    return [*(e for e in entries if e not in turned and not _is_our_apply(e)), applied]


def _is_our_apply(entry: Json) -> bool:
    return entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource")


def _is_ours(entry: Json, takeover: bool) -> bool:
    if entry.get("operation") != "Update" or entry.get("subresource"):
        return False
    manager = str(entry.get("manager", ""))
    return manager == FIELD_MANAGER or (takeover and not manager.startswith(_NOT_AN_OPERATOR))


def _union(one: Json, other: Json) -> Json:
    both = {name: _union(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}
