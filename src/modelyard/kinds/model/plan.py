"""What a Model needs in the cluster: nothing, unless its weights are to be fetched beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.plan import Later, Plan
from modelyard.core.resources import JOB
from modelyard.kinds.contract import Owned
from modelyard.kinds.model import prefetch
from modelyard.kinds.model.prefetch import Stage
from modelyard.kinds.shared import model_volumes, secrets

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.shared.models import ModelSpec


def plan(model: Object[ModelSpec], seen: Seen) -> Plan:
    """Return the Job that fetches the weights beforehand, and the claim it fills; or nothing."""
    if problem := model_volumes.trouble(model.spec, seen):
        return Plan(blocked=problem, look_again=secrets.look_again(model, seen.now, problem))
    jobs = tuple(job.ref for job in seen.all(Owned(JOB)))
    rotation = secrets.ROTATION if model.spec.source_secret_ref else None
    if not prefetch.is_wanted(model.spec, seen.policy):
        return Plan(delete=jobs, look_again=rotation)
    match prefetch.stage(model, seen):
        case Stage.DONE:
            return Plan(look_again=rotation)
        case Stage.OUTDATED:
            return Plan(delete=jobs, look_again=rotation)
        case Stage.FAILED:
            return Plan(look_again=_sooner(rotation, prefetch.look_again(seen)))
    return Plan(apply=prefetch.children(model, seen), look_again=_sooner(prefetch.settling(seen), rotation))


def _sooner(one: Later | None, other: Later | None) -> Later | None:
    return min((later for later in (one, other) if later), key=lambda later: later.seconds, default=None)
