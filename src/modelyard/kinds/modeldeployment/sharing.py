"""Other objects that use a claim of a ModelDeployment: those that name it, and those whose pods mount it.

`prune` asks, because a claim keeps no list of its users. Pods alone do not tell: an object that is scaled to zero, or
has still to be deployed, wants its weights again. Workloads that are not Modelyard's are not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard.core import names
from modelyard.core.errors import SpecInvalid
from modelyard.core.resources import DEPLOYMENT, POD
from modelyard.core.selectors import Selector
from modelyard.core.source import Claim, parse
from modelyard.kinds.contract import Every
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.kinds.modeldeployment.api import DEPLOYMENT_LABEL, RESOURCE
from modelyard.kinds.shared.pods import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Seen

Json = dict[str, Any]

PRUNE: Final = "--prune-except"
"""The argument of `modelyard fetch` without which it removes nothing."""
_OURS: Final = Selector(((names.MANAGED_BY, names.MANAGER),))


class Use(Struct, frozen=True):
    """The claims that an object names or mounts."""

    by: str
    """The ModelDeployment that it is, or belongs to; empty: it is of another kind."""
    claims: tuple[str, ...]
    prunes: bool = False
    """Whether it is a pod that may still remove weights from them."""


class _Storage(Struct, frozen=True, rename="camel"):
    existing_claim: str = ""


class _Naming(Struct, frozen=True, rename="camel"):
    """The fields that name claims: of a Model the first one, of a ModelDeployment the others."""

    source: str = ""
    model_source: str = ""
    storage: _Storage = _Storage()


_NAMING: Final = msgspec.json.Decoder(_Naming)


def named(item: Stored) -> Use | None:
    """Return the claims that a Model or a ModelDeployment names; None: none."""
    try:
        spec = _NAMING.decode(item.parts.get("spec", b"{}"))
    except msgspec.ValidationError:
        return None
    written = (spec.storage.existing_claim, _claim(spec.source), _claim(spec.model_source))
    claims = tuple(claim for claim in written if claim)
    return Use(item.meta.name if item.resource == RESOURCE else "", claims) if claims else None


def _claim(source: str) -> str:
    try:
        found = parse(source)
    except SpecInvalid:
        return ""
    return found.claim if isinstance(found, Claim) else ""


def mounted(item: Stored) -> Use | None:
    """Return the claims that a pod mounts, or the pods of a Deployment; None: none."""
    pod = pod_of(item)
    volumes = (volume.get("persistentVolumeClaim", {}) for volume in pod.get("volumes", ()))
    claims = tuple(volume["claimName"] for volume in volumes if volume)
    may_prune = prunes(pod) and item.status.get("phase") not in FINISHED
    return Use(item.meta.label(DEPLOYMENT_LABEL), claims, may_prune) if claims else None


def pod_of(item: Stored) -> Json:
    """Return the spec of a pod, or of the pods of a workload."""
    spec = item.spec
    return dict(spec.get("template", {}).get("spec", {})) if "template" in spec else spec


def prunes(pod: Json) -> bool:
    """Return whether a pod with this spec removes weights before it fetches others."""
    return any(PRUNE in container.get("args", ()) for container in pod.get("containers", ()))


def reads(namespace: str) -> Iterator[Every[Use]]:
    """Name everything of a namespace that may use a claim: objects, Deployments, also without pods, and pods."""
    yield Every(RESOURCE, named, namespace)
    yield Every(MODEL, named, namespace)
    yield Every(DEPLOYMENT, mounted, namespace, _OURS)
    yield pods(namespace)


def pods(namespace: str) -> Every[Use]:
    """Return the read of the claims that the pods of a namespace mount."""
    return Every(POD, mounted, namespace, _OURS)


def is_shared(claim: str, owner: str, namespace: str, seen: Seen) -> bool:
    """Return whether another object than the ModelDeployment `owner` uses a claim."""
    uses = (use for read in reads(namespace) for use in seen.every(read).values())
    return any(use.by != owner and claim in use.claims for use in uses)
