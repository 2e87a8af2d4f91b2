"""The claim with the weights of a ModelDeployment: NAME-weights, or none if the weights are on a claim of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from modelyard.core.plan import Child, CreateOnly
from modelyard.core.quantities import quantity
from modelyard.core.resources import VOLUME_CLAIM
from modelyard.kinds.contract import Named
from modelyard.kinds.modeldeployment import naming, weights
from modelyard.kinds.shared import workloads
from modelyard.kinds.shared.pods import without_empty

if TYPE_CHECKING:
    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec

Json = dict[str, Any]

GROUP: Final = "claim"


def children(md: Object[ModelDeploymentSpec], seen: Seen) -> tuple[Child | CreateOnly, ...]:
    """Return the claim to create and to enlarge; empty: the weights are on a claim of the user.

    One that is to be kept has no owner, or garbage collection would take it.
    """
    storage = md.spec.storage
    if storage.existing_claim or not weights.is_fetched(md.spec):
        return ()
    name = weights.own_claim_name(md.meta.name)
    live = seen.one(Named(VOLUME_CLAIM, name))
    child = workloads.child(VOLUME_CLAIM, name, naming.child_labels(md.meta.name), {"spec": _spec(md, seen, live)})
    if storage.retain:
        return (CreateOnly(VOLUME_CLAIM, name, child.body, shared=True),)
    # Not every storage class lets a claim grow. A refusal is told, and holds up neither Job nor server.
    return (structs.replace(child, group=GROUP) if _is_own(md, live) else child,)


def _is_own(md: Object[ModelDeploymentSpec], live: Stored | None) -> bool:
    return live is not None and live.meta.controller is not None and live.meta.controller.uid == md.meta.uid


def _spec(md: Object[ModelDeploymentSpec], seen: Seen, live: Stored | None) -> Json:
    storage, policy = md.spec.storage, seen.policy
    return without_empty(
        {
            "accessModes": [storage.access_mode],
            "resources": {"requests": {"storage": _size(storage.size or policy.cache_size, live)}},
            # An empty class would mean "no class"; only left out does it mean the cluster's default.
            "storageClassName": storage.storage_class_name or policy.cache_class,
        }
    )


def _size(wanted: str, live: Stored | None) -> str:
    """Return the size to ask for: the live one if it is larger, because a claim cannot shrink."""
    now = str(live.spec.get("resources", {}).get("requests", {}).get("storage", wanted)) if live else wanted
    return now if quantity(now) > quantity(wanted) else wanted
