"""The decision of a ModelDeployment, for plan and status: what stands in its way, its weights, and its drain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.core.resources import VOLUME_CLAIM
from modelyard.kinds.contract import Named, Object
from modelyard.kinds.modeldeployment import download, drain, prune, server, version, weights
from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec
from modelyard.kinds.modeldeployment.download import Stage
from modelyard.kinds.modeldeployment.drain import Memory, Step

if TYPE_CHECKING:
    from modelyard.kinds.contract import Seen


class Decision(Struct, frozen=True):
    """What is to be done for a ModelDeployment."""

    problem: Problem | None
    """Why its weights can neither be fetched nor mounted; None: they can, or they are there."""
    stage: Stage
    """The stage of the weights that are wanted."""
    has_lost_weights: bool
    """Whether the weights of the running pods are gone with their claim."""
    served: Object[ModelDeploymentSpec] | None
    """The object with the version to serve: the wanted one, or the earlier one for now; None: neither can be."""
    memory: Memory
    """When a drain began, and how it ended."""
    drain: Step | None
    """The step of the drain; None: there is none."""


def decide(md: Object[ModelDeploymentSpec], seen: Seen) -> Decision:
    """Return the decision of one ModelDeployment."""
    stage = download.stage(md, seen)
    if stage is Stage.RUNNING and prune.is_harmful(md, seen):
        stage = Stage.OUTDATED
    # Weights that are there are served without the Secret that they were fetched with.
    fetched = stage is Stage.PRESENT and weights.is_fetched(md.spec)
    problem = None if fetched else weights.find_problem(md, seen)
    memory = drain.remember(md, seen)
    lost = stage is not Stage.PRESENT and _has_lost_weights(md, seen)
    is_wanted = stage is Stage.PRESENT and problem is None
    served = md if is_wanted else None if lost else version.earlier(md, seen)
    return Decision(problem, stage, lost, served, memory, drain.step(seen, memory))


def _has_lost_weights(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    verified = md.before.get("weights") or {}
    if not server.served_key(seen) or not verified.get("claim"):
        return False
    claim = seen.one(Named(VOLUME_CLAIM, str(verified["claim"])))
    return claim is None or claim.meta.uid != verified.get("claimUid")
