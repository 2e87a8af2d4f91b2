"""The status of a Model. Ready means that it can be served, as far as is known; WeightsPresent says whether its weights
are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from modelyard.core.conditions import Condition, Problem, Truth, condition
from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.core.resources import VOLUME_CLAIM
from modelyard.core.source import Claim, Hub, Local, cache_key, parse
from modelyard.kinds.contract import Named
from modelyard.kinds.model import accelerator, ignored_fields, prefetch, upstream
from modelyard.kinds.model.api import Accelerator, ModelPhase, ModelStatus
from modelyard.kinds.model.prefetch import Stage
from modelyard.kinds.model.sizes import size_text
from modelyard.kinds.model.weights_present import Presence, presence

if TYPE_CHECKING:
    from modelyard.core.objects import Json
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.model.api import ModelSpec
    from modelyard.kinds.model.decide import ModelDecision

_PROGRESSING = (ModelPhase.PENDING, ModelPhase.DOWNLOADING)
_SOURCE_FAULTS = frozenset(
    {
        Reason.MODEL_SOURCE_INVALID,
        Reason.MODEL_SOURCE_UNAUTHORIZED,
        Reason.MODEL_SOURCE_NOT_FOUND,
        Reason.MODEL_SOURCE_UNTRUSTED,
        Reason.MODEL_SOURCE_REFUSED,
        Reason.MODEL_CHECKSUM_MISMATCH,
    }
)
"""Failed downloads that are the fault of the Model, and not of a volume, a node or the network."""


class ModelState(Struct, frozen=True):
    """The state of a Model: its phase, why, and whether a user has to act."""

    phase: ModelPhase
    reason: Reason
    message: str
    degraded: bool = False


def summarise(model: Object[ModelSpec], seen: Seen, outcome: Outcome, decision: ModelDecision) -> ModelStatus:
    """Return the status of one Model."""
    spec = model.spec
    reported = presence(model, seen)
    state = model_state(model.spec, seen, outcome, decision.stage, reported.problem)
    present = confirmed_by_job(reported) if state.reason is Reason.MODEL_PREFETCHED else reported
    known = upstream.compare(model, seen, present)
    if state.phase is ModelPhase.READY:
        state = state_of_source(state, present, known.condition)
    learned = size_text(known.baseline.length) if known.baseline.length else "0"
    return ModelStatus(
        phase=state.phase,
        size=present.size or learned,
        path=path(model, seen),
        cache_key="" if is_file_on_mac(spec) else cache_key(spec.source),
        sha256=present.sha256,
        source_etag=known.baseline.etag,
        source_content_length=known.baseline.length,
        last_revalidated=known.changed_at,
        accelerator_ready=not accelerator.missing_resource(spec, seen),
        gguf=known.gguf,
        conditions=(
            *conditions(state),
            present.condition,
            known.condition,
            ignored_fields.fields_ignored(spec, seen.policy, known.gguf),
        ),
    )


def confirmed_by_job(reported: Presence) -> Presence:
    """Return the presence of weights whose prefetch is complete, even if the report of its pod is gone."""
    if reported.confirmed:
        return reported
    message = "a Job has fetched and verified the weights"
    said = condition(reported.condition.type, True, Reason.MODEL_PREFETCHED, message)
    return msgspec.structs.replace(reported, condition=said)


def is_file_on_mac(spec: ModelSpec) -> bool:
    """Return whether the weights are a file that the daemon on the Mac reads where it is."""
    return runs_on_mac(spec) and isinstance(parse(spec.source), Local)


def runs_on_mac(spec: ModelSpec) -> bool:
    """Return whether a Mac outside the cluster serves the Model, and no pod."""
    return spec.hardware.accelerator is Accelerator.METAL


def path(model: Object[ModelSpec], seen: Seen) -> str:
    """Return the path of the weights in pods; empty: no pod serves them."""
    if runs_on_mac(model.spec):
        return ""
    return prefetch.storage(model, seen.policy).model


def on_error(_: Json, problem: Problem) -> Json:
    """Return the status fields to change when `summarise` cannot be called: only an invalid spec is a failed Model."""
    return {"phase": ModelPhase.FAILED.value} if problem.reason is Reason.INVALID_SPEC else {}


def model_state(
    spec: ModelSpec, seen: Seen, outcome: Outcome, stage: Stage | None, reported: Problem | None
) -> ModelState:
    """Return the state of a Model, by the first case that applies."""
    if outcome.problem:
        return _problem_state(
            ModelPhase.FAILED if outcome.problem.reason in PROBLEMS else ModelPhase.PENDING, outcome.problem
        )
    match stage:
        case None:
            return ModelState(ModelPhase.READY, *available(spec, seen))
        case Stage.DONE:
            return ModelState(ModelPhase.READY, Reason.MODEL_PREFETCHED, "the weights are in the cache")
        case Stage.FAILED:
            return _problem_state(ModelPhase.FAILED, prefetch.failure(seen, reported))
    progress = prefetch.progress_text(seen)
    # The failure of the last pod stands until the next one receives bytes: most likely it will fail in the same way.
    if problem := prefetch.find_problem(seen) or (None if progress else reported):
        return _problem_state(ModelPhase.DOWNLOADING, problem)
    return ModelState(
        ModelPhase.DOWNLOADING, Reason.PREFETCH_RUNNING, progress or "a Job is fetching the weights into the cache"
    )


def _problem_state(phase: ModelPhase, problem: Problem) -> ModelState:
    return ModelState(phase, problem.reason, problem.text, degraded=problem.reason in PROBLEMS)


def state_of_source(state: ModelState, present: Presence, drift: Condition) -> ModelState:
    """Return the state of a Model that could be served, given what pods and the operator have found at its source.

    No service waits because of it, so that pods with credentials that the operator lacks can prove it wrong.
    """
    gone, found = drift.reason == Reason.UPSTREAM_NOT_FOUND, drift.status is not Truth.UNKNOWN
    if present.confirmed:
        both = f"pods serve the weights that were fetched before, but the source no longer has them: {drift.message}"
        return msgspec.structs.replace(state, message=both) if gone else state
    if gone:
        return ModelState(ModelPhase.FAILED, Reason.MODEL_SOURCE_NOT_FOUND, drift.message, degraded=True)
    said = present.condition
    # It has come back since pods did not find it, and perhaps no pod is left to say so.
    is_back = said.reason == Reason.MODEL_SOURCE_NOT_FOUND and found
    if said.reason in _SOURCE_FAULTS and not is_back:
        return ModelState(ModelPhase.FAILED, Reason(said.reason), said.message, degraded=True)
    return state


def available(spec: ModelSpec, seen: Seen) -> tuple[Reason, str]:
    """Return reason and message of a Model that can be served: how pods get its weights."""
    reason, message = _available(spec, seen)
    absent = accelerator.missing_resource(spec, seen)
    return reason, f"{message}; no node has {absent}" if absent else message


def _available(spec: ModelSpec, seen: Seen) -> tuple[Reason, str]:
    source = parse(spec.source)
    if isinstance(source, Claim):
        return _claim_availability(source, seen)
    if is_file_on_mac(spec):
        return Reason.METAL_AGENT_MANAGED, "the daemon on the Mac reads the file"
    whole = isinstance(source, Hub) and not source.file
    reason = Reason.RUNTIME_RESOLVED if whole else Reason.WORKLOAD_RESOLVED
    if runs_on_mac(spec):
        return reason, "the daemon on the Mac fetches the weights"
    return reason, "pods fetch the weights when they start" + (", or their engine does" if whole else "")


def _claim_availability(source: Claim, seen: Seen) -> tuple[Reason, str]:
    claim = seen.one(Named(VOLUME_CLAIM, source.claim))
    if claim and claim.status.get("phase") == "Bound":
        return Reason.PVC_MODEL_READY, f"pods mount the claim {source.claim}"
    # Ready all the same: many storage classes bind a claim only when a pod uses it, and no pod would ever be created.
    return Reason.PVC_NOT_BOUND, f"pods mount the claim {source.claim}, which is not bound to a volume yet"


def conditions(state: ModelState) -> tuple[Condition, ...]:
    """Return the conditions that follow from the state of a Model."""
    ready, reason, message = state.phase is ModelPhase.READY, state.reason, state.message
    return (
        condition("Ready", ready, Reason.READY if ready else reason, message),
        condition("Available", ready, reason, message),
        condition("Progressing", state.phase in _PROGRESSING, reason, message),
        condition("Degraded", state.degraded, reason, message),
    )
