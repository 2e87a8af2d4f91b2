"""How far the weights of a Model are: decided once per look, and handed to plan and status."""

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
    """Whether a Model may be served, and what is to be done about its weights."""

    problem: Problem | None
    """Why the Model may not be served."""
    stage: Stage | None
    """How far the prefetch is; None: there is none to be made."""


def decide(model: Object[ModelSpec], seen: Seen) -> ModelDecision:
    """Return what plan and status of one Model go by."""
    if problem := model_volumes.find_problem(model.spec, seen):
        return ModelDecision(problem, None)
    wanted = prefetch.is_wanted(model.spec, seen.policy)
    return ModelDecision(None, prefetch.stage(model, seen) if wanted else None)
