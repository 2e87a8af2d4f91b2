"""The children of a Model: none, or the prefetch Job and the claim that it fills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.plan import Plan, RequeueAfter
from modelyard.core.resources import JOB
from modelyard.kinds.contract import Owned
from modelyard.kinds.model import prefetch
from modelyard.kinds.model.prefetch import Stage
from modelyard.kinds.shared import secrets

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.model.api import ModelSpec
    from modelyard.kinds.model.decide import ModelDecision


def plan(model: Object[ModelSpec], seen: Seen, decision: ModelDecision) -> Plan:
    """Return the plan of one Model. A Job that is outdated is deleted first; the next reconcile creates the new one."""
    if problem := decision.problem:
        return Plan(blocked=problem, requeue_after=secrets.requeue_after(model, seen.now, problem))
    jobs = tuple(job.ref for job in seen.all(Owned(JOB)))
    rotation = secrets.ROTATION if model.spec.source_secret_ref else None
    match decision.stage:
        case Stage.DONE:
            return Plan(requeue_after=rotation)
        case None | Stage.OUTDATED:
            return Plan(delete=jobs, requeue_after=rotation)
        case Stage.FAILED:
            return Plan(requeue_after=_sooner(rotation, prefetch.retry_failed(seen)))
    return Plan(apply=prefetch.children(model, seen), requeue_after=_sooner(prefetch.recheck_new_pod(seen), rotation))


def _sooner(one: RequeueAfter | None, other: RequeueAfter | None) -> RequeueAfter | None:
    return min((later for later in (one, other) if later), key=lambda later: later.seconds, default=None)
