"""The phase of a ModelDeployment: a table, of which the first row that fits counts.

`status` calls `decide_phase`. docs/kinds/modeldeployment.md repeats the table, and a test keeps the two equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.kinds.modeldeployment.api import Phase
from modelyard.kinds.modeldeployment.download import Stage
from modelyard.kinds.modeldeployment.drain import DrainResult, Step
from modelyard.kinds.shared.workloads import Rollout


class PhaseFacts(Struct, frozen=True):
    """What decides the phase. `status` works it out."""

    stage: Stage
    obstacle: Problem | None = None
    """What stands in the way of the wanted weights, or kept the plan from being carried out; None: nothing."""
    failure: Problem | None = None
    """Why the download failed or fails; None: it does not."""
    is_fetching: bool = False
    """Whether a pod of the Job has started."""
    is_queued: bool = False
    """Whether a download of other weights has to stop first."""
    progress: str = ""
    """How far the download is; empty: not known."""
    rollout: Rollout = Rollout()
    trouble: Problem | None = None
    """What keeps pods from serving; None: nothing."""
    drain: Step | None = None
    """The step of the drain; None: there is none."""
    drain_result: DrainResult | None = None
    """How the drain ended; None: it has not."""
    unreadable: bool = False
    """Whether the metrics of a pod that is drained cannot be read."""
    remark: str = ""
    """How the probes of a pod that is not ready fail, if its node has said so."""


class Why(Struct, frozen=True):
    """The reason and message of the condition Ready."""

    reason: Reason
    message: str


class Row(Struct, frozen=True):
    """One row of the table."""

    phase: Phase
    when: str
    holds: Callable[[PhaseFacts], bool]
    why: Callable[[PhaseFacts], Why]


def _because(problem: Problem | None) -> Why:
    assert problem, "the row holds because of a problem"
    return Why(problem.reason, problem.text)


def _fetching(facts: PhaseFacts) -> Why:
    if problem := facts.obstacle or facts.failure:
        return _because(problem)
    return Why(Reason.DOWNLOADING, facts.progress or "a Job is fetching the weights")


def _waiting(facts: PhaseFacts) -> Why:
    if problem := facts.obstacle or facts.failure:
        return _because(problem)
    if facts.is_queued:
        return Why(Reason.CREATING, "the download of other weights has to stop before this one starts")
    return Why(Reason.CREATING, "the Job that fetches the weights starts")


def _deploying(facts: PhaseFacts) -> Why:
    if problem := facts.obstacle or facts.trouble or facts.rollout.problem:
        return _because(problem)
    if facts.rollout.wanted == 0:
        return Why(Reason.STOPPING, "scaled to zero, and some pods are still stopping")
    reason = Reason.ROLLING_OUT if facts.rollout.ready else Reason.STARTING
    return Why(reason, "; ".join(filter(None, (facts.rollout.count, facts.remark))))


def drain_state(facts: PhaseFacts) -> Why:
    """Return reason and message of a drain."""
    if facts.drain_result is DrainResult.TIMED_OUT:
        return Why(Reason.DRAIN_TIMED_OUT, _CUT)
    if facts.drain_result:
        return Why(Reason.DRAINED, "all requests were answered before the pods stopped")
    if facts.unreadable:
        return Why(Reason.DRAINING, "no new request gets in; the metrics of a pod cannot be read, which counts as busy")
    return Why(Reason.DRAINING, "no new request gets in; those in progress are waited for")


def _is_refused(facts: PhaseFacts) -> bool:
    return facts.obstacle is not None and facts.obstacle.reason is Reason.SOURCE_UNFIT


_CUT: Final = (
    "not all pods were known to be idle after spec.drain.timeoutSeconds, and what was in progress on them was cut; "
    "raise it if requests should have more time"
)

TABLE: Final = (
    Row(
        Phase.DECOMMISSIONED,
        "it is deprecated, and nothing of it is left but perhaps its claim",
        lambda facts: facts.drain is Step.DONE,
        lambda _: Why(
            Reason.DECOMMISSIONED, "the model is out of service; set spec.deprecated to false to deploy it again"
        ),
    ),
    Row(
        Phase.DRAINING,
        "it is deprecated or being deleted, and its pods have requests, stop, or are not deleted yet",
        lambda facts: facts.drain is not None,
        lambda facts: _because(facts.obstacle) if facts.obstacle else drain_state(facts),
    ),
    Row(
        Phase.FAILED,
        "the download has failed, and another try would fail too; or the engine cannot serve such weights",
        lambda facts: facts.stage is Stage.FAILED or _is_refused(facts),
        lambda facts: _because(facts.obstacle or facts.failure),
    ),
    Row(
        Phase.PENDING,
        "no pod is ready, and something that it needs is missing, or the cluster refuses a child",
        lambda facts: facts.obstacle is not None and facts.rollout.ready == 0,
        lambda facts: _because(facts.obstacle),
    ),
    Row(
        Phase.DOWNLOADING,
        "the weights are not complete, and a pod of the Job has started to fetch them",
        lambda facts: facts.stage is not Stage.PRESENT and facts.is_fetching,
        _fetching,
    ),
    Row(
        Phase.PENDING,
        "the weights are not complete, and no pod of the Job has started",
        lambda facts: facts.stage is not Stage.PRESENT,
        _waiting,
    ),
    Row(
        Phase.PENDING,
        "the weights are complete, no pod is wanted, and none is left",
        lambda facts: facts.rollout.complete and facts.rollout.wanted == 0,
        lambda _: Why(Reason.SCALED_TO_ZERO, "scaled to zero; raise spec.replicas to serve"),
    ),
    Row(
        Phase.RUNNING,
        "all wanted pods are ready and serve the wanted weights",
        lambda facts: facts.rollout.complete and facts.obstacle is None,
        lambda facts: Why(Reason.PODS_READY, facts.rollout.count),
    ),
    Row(Phase.DEPLOYING, "otherwise", lambda _: True, _deploying),
)


class Verdict(Struct, frozen=True):
    """A phase, and why an object is in it."""

    phase: Phase
    why: Why


def decide_phase(facts: PhaseFacts) -> Verdict:
    """Return the phase of the first row whose condition holds."""
    row = next(row for row in TABLE if row.holds(facts))
    return Verdict(row.phase, row.why(facts))
