"""Stored objects in one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core.objects import Stored
from modelyard.core.resources import DEPLOYMENT, Resource

if TYPE_CHECKING:
    from modelyard.core.objects import Json

OWNER_KIND = "MCP"


def nobody(_old: Stored | None, _new: Stored | None) -> None:
    """Hear the changes of a cache, and do nothing."""


def stored(
    name: str,
    revision: int = 1,
    *,
    resource: Resource = DEPLOYMENT,
    namespace: str = "default",
    uid: str = "",
    owner: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    finalizing: bool = False,
    **parts: Any,
) -> Stored:
    """Return an object; `owner` is `name:uid` of the MCP that controls it."""
    meta: Json = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-of-{name}",
        "resourceVersion": str(revision),
        "generation": 1,
        "labels": labels or {},
        "annotations": annotations or {},
    }
    if finalizing:
        meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["modelyard.dev/finalize"]}
    if owner:
        owner_name, _, owner_uid = owner.partition(":")
        head = {"apiVersion": "core.inference-gateway.com/v1alpha1", "kind": OWNER_KIND, "controller": True}
        meta["ownerReferences"] = [{**head, "name": owner_name, "uid": owner_uid}]
    return Stored.from_dict(resource, {"metadata": meta, **parts})
