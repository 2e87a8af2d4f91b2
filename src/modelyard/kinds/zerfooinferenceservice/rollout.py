"""The way of a canary: which weight it gets, step by step, and what is remembered of it.

Pure, called once per reconcile by `decide`. The result is memory: it is written before anything acts on it, so that an
operator that is killed goes on where it was.

    weight 0 ──the canary is ready──> weight of the step ──in force──> judged
       ^                                   ^                             |
       |                                   └──next step──────in time, within the limits
       └──no pod is ready, or a limit is broken (for good)───────────────┘
                                                             last step: promoted, or left to the user
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from modelyard.core.diff import fingerprint
from modelyard.core.times import seconds_since, timestamp
from modelyard.kinds.shared.envoy_stats import Figures
from modelyard.kinds.zerfooinferenceservice.api import Counted, Rollout, in_seconds

if TYPE_CHECKING:
    from modelyard.kinds.zerfooinferenceservice.api import Canary, Step

ROLLED_BACK: Final = "RolledBack"
PROMOTED: Final = "Promoted"
PASSED: Final = "Passed"

_TAIL: Final = 0.95


class Facts(Struct, frozen=True):
    """What the way of a canary depends on."""

    now: datetime
    complete: bool
    """Whether all pods of the canary are ready and run what the spec says now."""
    serves: bool
    """Whether a pod of the canary is ready."""
    in_force: bool
    """Whether the routers split requests by the weight that was decided last."""
    counted: Mapping[str, Figures] = {}
    """What the routers have counted for the canary, by pod."""


def identity(canary: Canary) -> str:
    """Return a name for a canary: another model or other steps are another canary, another weight is not."""
    return fingerprint({"model": canary.model_ref, "steps": msgspec.to_builtins(canary.steps)})


def is_promoted(canary: Canary | None, remembered: Rollout | None) -> bool:
    """Return whether this canary has passed all steps and is to become the primary."""
    return canary is not None and remembered is not None and _is_same(canary, remembered, PROMOTED)


def _is_same(canary: Canary, remembered: Rollout, verdict: str) -> bool:
    return remembered.canary == identity(canary) and remembered.verdict == verdict


def wanted_weight(canary: Canary, rollout: Rollout) -> int:
    """Return the weight that a canary is to have once it is ready."""
    if not canary.steps:
        return canary.weight
    return 0 if rollout.verdict == ROLLED_BACK else canary.steps[rollout.step].weight


def advance(canary: Canary, remembered: Rollout | None, facts: Facts) -> Rollout:
    """Return what is decided of a canary that is wanted."""
    before = remembered or Rollout()
    if before.canary != identity(canary):
        before = Rollout(canary=identity(canary), weight=before.weight)
    before = replace(before, leaving_since="")
    weight = wanted_weight(canary, before)
    # All pods at first, for one alone could not carry the share. Later one is better than none.
    if not facts.complete and not (before.weight and facts.serves):
        return replace(before, weight=0, since="", counted={})
    if before.verdict == PASSED and canary.promote == "Auto":
        return replace(before, verdict=PROMOTED)
    if not canary.steps or before.verdict or before.weight != weight or not facts.in_force:
        return replace(before, weight=weight)
    if before.since:
        return _judged(canary, before, facts)
    # While pods of an earlier model answer, a step would be judged by those.
    return replace(before, since=timestamp(facts.now), counted=_kept(facts.counted)) if facts.complete else before


def seconds_left(canary: Canary, rollout: Rollout, now: datetime) -> float | None:
    """Return the seconds until the step under way may pass; None: there is none, or only requests are missing."""
    if not canary.steps or not rollout.since or rollout.verdict:
        return None
    left = in_seconds(canary.steps[rollout.step].duration) - seconds_since(rollout.since, now)
    return left if left > 0 else None


def _judged(canary: Canary, before: Rollout, facts: Facts) -> Rollout:
    step = canary.steps[before.step]
    figures = _since(before, facts.counted)
    if broken := _broken_limit(step, figures):
        message = f"step {before.step + 1} of {len(canary.steps)}, with {step.weight} %, failed: {broken}"
        return Rollout(canary=before.canary, step=before.step, verdict=ROLLED_BACK, message=message)
    in_time = seconds_since(before.since, facts.now) >= in_seconds(step.duration)
    if not in_time or figures.requests < step.min_requests:
        return before
    if before.step + 1 < len(canary.steps):
        following = canary.steps[before.step + 1]
        return Rollout(canary=before.canary, weight=following.weight, step=before.step + 1)
    verdict = PROMOTED if canary.promote == "Auto" else PASSED
    return Rollout(canary=before.canary, weight=before.weight, step=before.step, verdict=verdict)


def _broken_limit(step: Step, figures: Figures) -> str:
    """Return which limit the canary has broken; empty: none, or there were too few requests to tell."""
    if figures.requests < step.min_requests:
        return ""
    rate = 100 * figures.errors / figures.requests
    if step.max_error_rate and rate > float(step.max_error_rate.rstrip("%")):
        return f"{rate:.1f} % of {figures.requests} answers were errors, and {step.max_error_rate} may be"
    slow = figures.quantile(_TAIL)
    if step.max_p95_latency is not None and slow is not None and slow > in_seconds(step.max_p95_latency):
        return f"5 % of {figures.requests} answers took longer than {slow:.2f} seconds, and maxP95Latency is less"
    return ""


def _since(before: Rollout, counted: Mapping[str, Figures]) -> Figures:
    """Return what all routers have counted since the step began. One that came later has counted nothing else."""
    each = (figures.since(_figures(before.counted.get(pod, Counted()))) for pod, figures in counted.items())
    return reduce(Figures.__add__, each, Figures())


def _kept(counted: Mapping[str, Figures]) -> dict[str, Counted]:
    return {
        pod: Counted(each.requests, each.errors, {str(limit): count for limit, count in each.within.items()})
        for pod, each in counted.items()
    }


def _figures(counted: Counted) -> Figures:
    return Figures(counted.requests, counted.errors, {float(limit): count for limit, count in counted.within.items()})
