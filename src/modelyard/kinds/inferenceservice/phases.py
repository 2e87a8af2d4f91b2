"""The phase of an InferenceService: a table, of which the first row that fits counts.

`status` calls `decide_phase`. docs/kinds/inferenceservice.md repeats the table, and a test keeps the two equal.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.kinds.shared import workloads


class ServicePhase(StrEnum):
    """The phase of a service, as in its status."""

    PENDING = "Pending"
    CREATING = "Creating"
    PROGRESSING = "Progressing"
    READY = "Ready"
    WAITING_FOR_GPU = "WaitingForGPU"
    STOPPED = "Stopped"
    FAILED = "Failed"


class PhaseFacts(Struct, frozen=True):
    """What decides the phase of a service. `observed` works it out."""

    model: Problem | None = None
    """Why the Model cannot be served (yet); None: it can."""
    obstacle: Problem | None = None
    """What kept the plan from being carried out; None: nothing."""
    trouble: Problem | None = None
    """What keeps pods from serving, or clients from reaching them; None: nothing."""
    shortage: Problem | None = None
    """Set if a pod waits for GPUs."""
    outside_cluster: bool = False
    """Whether hosts outside the cluster serve the Model, in place of pods."""
    loading: bool = False
    """Whether such a host is loading it."""
    scale_applied: bool = False
    """Whether the replicas of the spec have reached the Deployment."""
    scaled_by_other: bool = False
    """Whether zero pods are wanted because another client scaled the Deployment, and not because of the spec."""
    wanted: int = 0
    ready: int = 0
    of_before: int = 0
    """How many pods serve in place of hosts, or hosts in place of pods, until all that is wanted does."""
    pods_left: int = 0
    """How many pods and hosts have the model, those that are about to go included."""
    complete: bool = False
    """Whether all pods that are wanted exist, are ready and of the latest template."""
    refused: bool = False
    """Whether the cluster refuses to create pods, even if another problem is reported first."""
    remark: str = ""
    """How the probes of a pod that is not ready fail, if its node has said so; or what hosts wait for."""
    old_pods_stopping: bool = False
    """Whether new pods wait until all old ones have stopped."""

    @property
    def problem(self) -> Problem | None:
        """The first of the problems; None: there is none."""
        return self.model or self.obstacle or self.trouble

    @property
    def serving(self) -> int:
        """How many pods and hosts get requests."""
        return self.ready + self.of_before

    @property
    def meanwhile(self) -> str:
        """What serves until all that is wanted does; empty: nothing else than that."""
        what = "pods" if self.outside_cluster else "hosts"
        return f"until then, the {what} of before serve: {self.of_before}" if self.of_before else ""

    @property
    def count(self) -> str:
        """How many pods, or hosts, are ready, for a condition."""
        if self.outside_cluster:
            return f"{self.ready} of {self.wanted} hosts are ready"
        if self.old_pods_stopping and self.wanted:
            return (
                f"{self.ready} of {self.wanted} pods are ready; the old ones are still stopping and hold their GPUs "
                "until they are gone. If they stay, check their node"
            )
        return workloads.ready_text(self.ready, self.wanted, complete=self.complete)


class Why(Struct, frozen=True):
    """Reason and message of a phase."""

    reason: Reason
    message: str


class Row(Struct, frozen=True):
    """One row of the table: a phase, when it holds (in words and as a function), and why."""

    phase: ServicePhase
    when: str
    holds: Callable[[PhaseFacts], bool]
    why: Callable[[PhaseFacts], Why]


TRANSIENT: Final = frozenset(
    {
        Reason.UNSCHEDULABLE,
        Reason.PREEMPTED,
        Reason.NODE_NOT_READY,
        Reason.PODS_FAILING,
        Reason.ROLLOUT_STUCK,
        Reason.INSUFFICIENT_MEMORY,
        Reason.LOAD_FAILED,
        Reason.EVICTED,
        Reason.NO_ANSWER,
        Reason.ALL_HOSTS_UNREACHABLE,
        Reason.ADDRESS_NOT_ROUTABLE,
    }
)
"""Problems that may go away by themselves."""

_FOR_MACS: Final = "this model is for a Mac, and no InferenceHost of this namespace serves it yet"
_NO_HOST: Final = "add one, with what `modelyard host join` prints"
_WITHOUT: Final = "or remove hardware.accelerator from the Model, to serve it with what there is"
_BY_THE_SPEC: Final = "scaled to zero; raise spec.replicas to serve"
_BY_OTHERS: Final = "another client scaled the Deployment to zero, not spec.replicas; scale it up to serve"


def is_lasting(problem: Problem | None) -> bool:
    """Return whether a problem stays until a user acts; None is no problem."""
    return problem is not None and problem.reason in PROBLEMS - TRANSIENT


def _because(problem: Problem | None) -> Why:
    assert problem, "the row fits because there is one"
    return Why(problem.reason, problem.text)


def _under_way(facts: PhaseFacts) -> Why:
    why = _what_is_under_way(facts)
    return Why(why.reason, f"{why.message}; {facts.meanwhile}") if facts.meanwhile else why


def _what_is_under_way(facts: PhaseFacts) -> Why:
    problem = facts.problem or facts.shortage
    if facts.outside_cluster and not problem:
        return _on_hosts(facts)
    return _because(problem) if problem else Why(Reason.CREATING, "; ".join(filter(None, (facts.count, facts.remark))))


def _on_hosts(facts: PhaseFacts) -> Why:
    if facts.loading or facts.ready:
        return Why(Reason.LOADING, facts.remark or facts.count)
    return Why(Reason.WAITING_FOR_METAL_AGENT, f"{_FOR_MACS}; {facts.remark or _NO_HOST}; {_WITHOUT}")


def _stopping(facts: PhaseFacts) -> Why:
    what = "hosts are still unloading it" if facts.outside_cluster else "some pods are still stopping"
    return Why(Reason.STOPPING, f"scaled to zero, and {what}")


TABLE: Final = (
    Row(
        ServicePhase.PENDING,
        "no pod is ready, and the Model does not exist, cannot be served, or is being prefetched",
        lambda facts: facts.serving == 0 and facts.model is not None,
        lambda facts: _because(facts.model),
    ),
    Row(
        ServicePhase.FAILED,
        "no pod is ready, and there is a problem that does not pass by itself",
        lambda facts: facts.serving == 0 and (is_lasting(facts.obstacle) or is_lasting(facts.trouble)),
        lambda facts: _because(facts.obstacle or facts.trouble),
    ),
    Row(
        ServicePhase.STOPPED,
        "no pod is wanted, and none is left",
        lambda facts: facts.scale_applied and facts.wanted == 0 and facts.pods_left == 0,
        lambda facts: Why(Reason.MANUALLY_SCALED_TO_ZERO, _BY_OTHERS if facts.scaled_by_other else _BY_THE_SPEC),
    ),
    Row(
        ServicePhase.PROGRESSING,
        "no pod is wanted, and some are left",
        lambda facts: facts.scale_applied and facts.wanted == 0,
        _stopping,
    ),
    Row(
        ServicePhase.READY,
        "all wanted pods are ready and of the latest template, and there is no problem",
        lambda facts: facts.complete and facts.problem is None,
        lambda facts: Why(Reason.INFERENCE_READY, facts.count),
    ),
    Row(ServicePhase.PROGRESSING, "some pods are ready", lambda facts: facts.serving > 0, _under_way),
    Row(
        ServicePhase.WAITING_FOR_GPU,
        "no pod is ready, and no node has enough free GPUs for one",
        lambda facts: facts.shortage is not None,
        lambda facts: _because(facts.trouble or facts.shortage),
    ),
    Row(ServicePhase.CREATING, "otherwise", lambda _: True, _under_way),
)


class Verdict(Struct, frozen=True):
    """A phase, and why a service is in it."""

    phase: ServicePhase
    why: Why


def decide_phase(facts: PhaseFacts) -> Verdict:
    """Return the phase of the first row whose condition holds."""
    row = next(row for row in TABLE if row.holds(facts))
    return Verdict(row.phase, row.why(facts))
