"""What the pods of a ModelDeployment serve now: the source of their weights, and the names that their server takes.

`status` calls `served_now`; doors and Gateways list the names. The Deployment is ahead of its pods while they are
replaced, so what the status said before stands until the last pod of the earlier version is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.kinds.modeldeployment import server, version, weights
from modelyard.kinds.shared.door_models import deployment_names

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec, VerifiedWeights
    from modelyard.kinds.shared.workloads import Rollout


class Served(Struct, frozen=True):
    """A version as clients see it. The defaults are those of an object without a Deployment."""

    source: str = ""
    names: tuple[str, ...] = ()


def served_now(
    md: Object[ModelDeploymentSpec], seen: Seen, verified: VerifiedWeights | None, rollout: Rollout
) -> Served:
    """Return what the pods of a ModelDeployment serve; empty: it has no Deployment."""
    if seen.one(server.OWN) is None:
        return Served()
    before = Served(str(md.before.get("servedSource", "")), tuple(md.before.get("servedNames") or ()))
    if before.names and rollout.ready and not rollout.current:
        return before
    return Served(_source(md, seen, verified, before), _names(md, seen, before))


def is_wanted(md: Object[ModelDeploymentSpec], seen: Seen, served: Served) -> bool:
    """Return whether a ModelDeployment serves the version that its spec describes."""
    is_deployed = server.served_key(seen) == weights.key(md.spec) and version.earlier(md, seen) is None
    return is_deployed and served == Served(weights.source_text(md.spec), _names_of(md))


def _source(md: Object[ModelDeploymentSpec], seen: Seen, verified: VerifiedWeights | None, before: Served) -> str:
    key = server.served_key(seen)
    if key == weights.key(md.spec):
        return weights.source_text(md.spec)
    return verified.source if verified and verified.key == key else before.source


def _names(md: Object[ModelDeploymentSpec], seen: Seen, before: Served) -> tuple[str, ...]:
    if earlier := version.earlier(md, seen):
        return _names_of(earlier)
    # A Deployment that does not tell its version, and has other weights than the spec wants.
    return _names_of(md) if server.served_key(seen) == weights.key(md.spec) else before.names


def _names_of(md: Object[ModelDeploymentSpec]) -> tuple[str, ...]:
    return deployment_names(md.spec.engine, md.spec.args, md.spec.model_name, md.meta.name)
