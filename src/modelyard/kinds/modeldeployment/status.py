"""The status of a ModelDeployment.

When all goes well it is written once for each phase that users see: Pending, Downloading, Deploying and Running. Only
the progress of a long download comes in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelyard.core.conditions import Condition, Problem, Truth, condition, failing
from modelyard.core.reasons import Reason
from modelyard.core.resources import SERVICE, VOLUME_CLAIM
from modelyard.kinds.contract import Named, Owned
from modelyard.kinds.modeldeployment import download, drain, naming, phases, prune, served, server, weights
from modelyard.kinds.modeldeployment.api import WEIGHTS_LABEL, ModelDeploymentStatus, Phase, VerifiedWeights
from modelyard.kinds.modeldeployment.download import Stage
from modelyard.kinds.modeldeployment.drain import SERVERS, DrainResult, Step
from modelyard.kinds.modeldeployment.phases import PhaseFacts, Verdict, Why
from modelyard.kinds.modeldeployment.placement import MOVE
from modelyard.kinds.shared import autoscale, pod_problems, workloads

if TYPE_CHECKING:
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec
    from modelyard.kinds.modeldeployment.decide import Decision

Json = dict[str, Any]

_REMEDIES: Final = pod_problems.Remedies(
    memory="raise spec.resources.limits.memory",
    room="free or add capacity, lower spec.gpus or spec.resources, or change spec.nodeSelector and spec.tolerations; "
    "with spec.gpus, a node needs the label nvidia.com/gpu.present=true",
    beside=MOVE,
)
_AT_THE_END: Final = (Step.REMOVING, Step.DONE)
_SETTLED: Final = (Phase.RUNNING, Phase.FAILED, Phase.DECOMMISSIONED)


def on_error(before: Json, problem: Problem) -> Json:
    """Return the status fields to change when `summarise` cannot be called."""
    if problem.reason is Reason.INVALID_SPEC:
        return {"phase": Phase.FAILED.value}
    return {"phase": Phase.DEPLOYING.value} if before.get("phase") == Phase.RUNNING else {}


def summarise(
    md: Object[ModelDeploymentSpec], seen: Seen, outcome: Outcome, decision: Decision
) -> ModelDeploymentStatus:
    """Return the status of one ModelDeployment."""
    facts = phase_facts(md, seen, outcome, decision)
    verified = verified_weights(md, seen, decision)
    now = served.served_now(md, seen, verified, facts.rollout)
    verdict = _with_earlier(facts, phases.decide_phase(facts), is_wanted=served.is_wanted(md, seen, now))
    return ModelDeploymentStatus(
        phase=verdict.phase,
        endpoint="" if verdict.phase is Phase.DECOMMISSIONED else endpoint(seen),
        ready_pods=facts.rollout.ready,
        replicas=facts.rollout.wanted,
        selector=",".join(f"{name}={value}" for name, value in sorted(naming.selector(md.meta.name).items())),
        served_source=now.source,
        served_names=now.names,
        download=download.progress(md, seen) if verdict.phase is Phase.DOWNLOADING else None,
        weights=verified,
        failed_attempt=download.attempt(md, seen) if decision.stage is Stage.FAILED else "",
        conditions=(
            condition("Ready", verdict.phase is Phase.RUNNING, verdict.why.reason, verdict.why.message),
            available(seen, facts),
            weights_present(md, facts, verified),
            progressing(verdict, facts),
            *drained(facts),
            *autoscale.conditions(md.before, seen),
        ),
    )


def phase_facts(md: Object[ModelDeploymentSpec], seen: Seen, outcome: Outcome, decision: Decision) -> PhaseFacts:
    """Return the facts that decide the phase."""
    rollout = workloads.read_rollout(seen.one(server.OWN))
    key = server.served_key(seen)
    latest = [pod for pod in seen.all(SERVERS) if pod.meta.label(WEIGHTS_LABEL) == key]
    # After the plan was carried out: what it deleted is gone.
    step = drain.step(seen, decision.memory)
    is_busy = rollout.wanted > 0 and not rollout.complete and step is None
    progress = download.progress(md, seen)
    return PhaseFacts(
        stage=decision.stage,
        # The plan goes on without weights that cannot be fetched if a version is served already.
        obstacle=outcome.problem or decision.problem,
        failure=_download_problem(md, seen, decision.stage),
        is_fetching=download.has_started(md, seen),
        is_queued=prune.is_under_way(md, seen),
        # Without the time left: a message must not hold times.
        progress=f"downloading: {progress.text.partition(', ')[0]}" if progress else "",
        rollout=rollout,
        trouble=pod_problems.first_problem(latest, _REMEDIES) if is_busy else None,
        remark=pod_problems.probe_remark(latest) if is_busy else "",
        drain=step,
        drain_result=decision.memory.drain_result,
        unreadable=drain.is_unreadable(md, seen),
    )


def _download_problem(md: Object[ModelDeploymentSpec], seen: Seen, stage: Stage) -> Problem | None:
    if stage in (Stage.FAILED, Stage.RETRYING):
        return download.failure(md, seen, stage)
    return download.find_problem(md, seen) if stage is Stage.RUNNING else None


def _with_earlier(facts: PhaseFacts, verdict: Verdict, *, is_wanted: bool) -> Verdict:
    """Return the verdict with the remark that an earlier version is served, if it is."""
    if is_wanted or facts.drain or not facts.rollout.ready:
        return verdict
    return Verdict(
        verdict.phase, Why(verdict.why.reason, f"the earlier version is served for now: {verdict.why.message}")
    )


def verified_weights(md: Object[ModelDeploymentSpec], seen: Seen, decision: Decision) -> VerifiedWeights | None:
    """Return the weights that were verified last; None: none were, or they are gone."""
    if not weights.is_fetched(md.spec) or decision.has_lost_weights or _goes_with_claim(md, decision):
        return None
    claim = seen.one(Named(VOLUME_CLAIM, weights.claim_name(md)))
    if decision.stage is Stage.PRESENT and claim:
        source = weights.source_text(md.spec)
        return VerifiedWeights(weights.key(md.spec), source, claim.meta.name, claim.meta.uid)
    try:
        return msgspec.convert(md.before.get("weights"), VerifiedWeights | None)
    except msgspec.ValidationError:
        return None


def _goes_with_claim(md: Object[ModelDeploymentSpec], decision: Decision) -> bool:
    """Return whether a drain deletes the claim with the weights."""
    storage = md.spec.storage
    return decision.drain in _AT_THE_END and not storage.retain and not storage.existing_claim


def endpoint(seen: Seen) -> str:
    """Return the URL of the model inside the cluster; empty: its Service does not exist."""
    found = seen.one(Owned(SERVICE))
    if found is None:
        return ""
    return server.endpoint(found.meta.name, found.meta.namespace, found.spec["ports"][0]["port"])


def available(seen: Seen, facts: PhaseFacts) -> Condition:
    """Return the condition Available: whether pods are ready, of whatever weights, and requests get in."""
    if facts.drain:
        return condition("Available", False, Reason.DRAINING, "no new request gets in")
    if seen.one(server.OWN) is None:
        return condition("Available", False, Reason.NO_READY_REPLICAS, "no pod is ready")
    return workloads.available(facts.rollout, facts.trouble or facts.rollout.problem, facts.remark)


def weights_present(md: Object[ModelDeploymentSpec], facts: PhaseFacts, verified: VerifiedWeights | None) -> Condition:
    """Return the condition WeightsPresent: whether the weights that are wanted are complete and verified."""
    kind = "WeightsPresent"
    if facts.drain in _AT_THE_END and verified is None:
        return condition(kind, False, Reason.DECOMMISSIONED, "the weights are not kept")
    if not weights.is_fetched(md.spec):
        message = "the weights are on a claim; whether they are complete shows when a pod serves them"
        return condition(kind, Truth.UNKNOWN, Reason.NOT_REPORTED, message)
    if facts.stage is Stage.PRESENT:
        return condition(kind, True, Reason.MODEL_TRANSFER_SUCCEEDED, "a Job has fetched and verified the weights")
    if facts.stage in (Stage.FAILED, Stage.RETRYING) and facts.failure:
        return failing(kind, facts.failure)
    return condition(kind, False, Reason.DOWNLOADING, "the weights are not complete yet")


def drained(facts: PhaseFacts) -> tuple[Condition, ...]:
    """Return the condition Drained; empty: there is no drain."""
    if facts.drain is None:
        return ()
    why = phases.drain_state(facts)
    return (condition("Drained", facts.drain_result is DrainResult.IDLE, why.reason, why.message),)


def progressing(verdict: Verdict, facts: PhaseFacts) -> Condition:
    """Return the condition Progressing: whether something is under way that needs no user."""
    why = verdict.why
    is_over = verdict.phase in _SETTLED or why.reason is Reason.SCALED_TO_ZERO or facts.obstacle is not None
    return condition("Progressing", not is_over, why.reason, why.message)
