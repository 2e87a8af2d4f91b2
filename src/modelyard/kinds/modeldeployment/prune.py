"""Which weights stay on the claim of a ModelDeployment when others are fetched onto it.

Each source has a folder of its own there, and without this the claim would fill up. The Job that fetches removes all
but two: what it fetches, and what pods serve. A Job that was told so must have ended before weights that it removes are
fetched again, so `plan` waits for its pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core import names
from modelyard.core.resources import POD
from modelyard.core.selectors import Selector
from modelyard.core.source import cache_key
from modelyard.kinds.contract import Every
from modelyard.kinds.modeldeployment import download, drain, version, weights
from modelyard.kinds.modeldeployment.api import DEPLOYMENT_LABEL, WEIGHTS_LABEL

if TYPE_CHECKING:
    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec


_OURS: Final = Selector(((names.MANAGED_BY, names.MANAGER),))


class Mounted(Struct, frozen=True):
    """The claims that a pod mounts."""

    by: str
    """The ModelDeployment of the pod; empty: it is one of another kind."""
    claims: tuple[str, ...]


def mounted(pod: Stored) -> Mounted | None:
    """Return the claims that a pod mounts; None: none."""
    volumes = (volume.get("persistentVolumeClaim", {}) for volume in pod.spec.get("volumes", ()))
    claims = tuple(volume["claimName"] for volume in volumes if volume)
    return Mounted(pod.meta.label(DEPLOYMENT_LABEL), claims) if claims else None


def mounts(md: Object[ModelDeploymentSpec]) -> Every[Mounted]:
    """Return the read of the claims that the pods of Modelyard mount, in the namespace of an object."""
    return Every(POD, mounted, md.meta.namespace, _OURS)


def folders_to_keep(md: Object[ModelDeploymentSpec], seen: Seen) -> tuple[str, ...]:
    """Return the folders that a Job keeps when it removes all others; empty: it must remove none.

    On a claim of the user, others may read what we do not know of, and a claim of ours may be named by another object.
    Pods of earlier versions may still be stopping; what they read goes with the next download.
    """
    served = version.earlier(md, seen)
    if served is None or md.spec.storage.existing_claim:
        return ()
    if _serves_others(served.spec, seen) or _is_shared(md, seen):
        return ()
    used = (spec for spec in (md.spec, served.spec) if weights.is_fetched(spec))
    return tuple(sorted({cache_key(weights.source_text(spec)) for spec in used}))


def _serves_others(spec: ModelDeploymentSpec, seen: Seen) -> bool:
    """Return whether there are pods with other weights than those of the Deployment."""
    return any(pod.meta.label(WEIGHTS_LABEL) != weights.key(spec) for pod in seen.all(drain.SERVERS))


def _is_shared(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    """Return whether a pod of another object mounts the claim."""
    own = weights.own_claim_name(md.meta.name)
    return any(pod.by != md.meta.name and own in pod.claims for pod in seen.every(mounts(md)).values())


def is_under_way(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    """Return whether a download of other weights may still run, and remove those that are wanted now."""
    wanted = download.pods_of(md, seen)
    others = (pod for pod in seen.all(download.PODS) if pod not in wanted)
    return any(pod.status.get("phase") not in ("Failed", "Succeeded") for pod in others)
