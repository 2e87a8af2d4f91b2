"""The decision of a Model, for plan and status: whether it can be served, and the stage of its prefetch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.kinds.model import prefetch
from modelyard.kinds.model.prefetch import Stage
from modelyard.kinds.shared import model_volumes

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.model.api import ModelSpec


class ModelDecision(Struct, frozen=True):
    """Whether a Model can be served, and what to do about its weights."""

    problem: Problem | None
    """Why the Model cannot be served; None: it can."""
    stage: Stage | None
    """The stage of the prefetch; None: there is none to be made."""


def decide(model: Object[ModelSpec], seen: Seen) -> ModelDecision:
    """Return the decision of one Model."""
    if problem := model_volumes.find_problem(model.spec, seen):
        return ModelDecision(problem, None)
    wanted = prefetch.is_wanted(model.spec, seen.policy)
    return ModelDecision(None, prefetch.stage(model, seen) if wanted else None)
