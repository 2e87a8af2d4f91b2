"""The Models that a service names, and whether they can be served.

Decided from the spec of the Model, so that no service waits for a status to be written. The one exception is a Model
with prefetch: only its status tells when that is complete.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from modelyard.core.conditions import Problem, stored_condition
from modelyard.core.objects import Stored
from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.engines import ENGINES
from modelyard.kinds.contract import Named
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.kinds.model.api import Accelerator, ModelSpec
from modelyard.kinds.shared import model_cache, model_volumes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.core.objects import Json
    from modelyard.kinds.contract import Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec


class Reference(Struct, frozen=True):
    """A Model that a field of a service names."""

    name: str
    field: str
    stored: Stored | None
    """None: the Model does not exist (yet)."""
    spec: ModelSpec | None
    """None: the Model does not exist, or its spec does not decode."""


def draft_name(spec: InferenceServiceSpec) -> str:
    """Return the name of the draft model; empty: there is none."""
    speculative = spec.vllm_config.speculative if spec.runtime == "vllm" and spec.vllm_config else None
    return speculative.model if speculative and speculative.enabled else ""


def model_reference(spec: InferenceServiceSpec, seen: Seen) -> Reference:
    """Return the Model that `spec.modelRef` names."""
    return look_up(spec.model_ref, "spec.modelRef", seen)


def draft_reference(spec: InferenceServiceSpec, seen: Seen) -> Reference | None:
    """Return the draft model; None: the spec names none."""
    name = draft_name(spec)
    return look_up(name, "spec.vllmConfig.speculative.model", seen) if name else None


def find_problem(spec: InferenceServiceSpec, named: Iterable[Reference | None], seen: Seen) -> Problem | None:
    """Return why the Models of a service cannot be served (yet), or have no place for their weights; None: they can."""
    found = [one for one in named if one]
    problem = next((problem for one in found if (problem := _problem_of(one, spec, seen))), None)
    return problem or model_cache.find_problem(spec, [one.spec for one in found if one.spec], seen)


def look_up(name: str, field: str, seen: Seen) -> Reference:
    """Return the Model of this name, which a field names."""
    stored = seen.one(Named(MODEL, name))
    return Reference(name, field, stored, _decoded(stored.parts.get("spec", b"{}")) if stored else None)


# One reconcile decodes the same Model in each round of reads, and a hundred services may share it.
@lru_cache(maxsize=256)
def _decoded(text: bytes) -> ModelSpec | None:
    try:
        return msgspec.json.decode(text, type=ModelSpec)
    except msgspec.ValidationError:
        return None


def _problem_of(reference: Reference, spec: InferenceServiceSpec, seen: Seen) -> Problem | None:
    name, field = reference.name, reference.field
    if reference.stored is None:
        return Problem(
            Reason.MODEL_NOT_FOUND,
            f"the Model {name} named by {field} does not exist in this namespace",
            f"create it, or name another in {field}",
        )
    if reference.spec is None:
        return Problem(
            Reason.MODEL_INVALID,
            f"the spec of the Model {name} named by {field} is not valid",
            f"see `kubectl describe model {name}`, and correct it",
        )
    if problem := model_volumes.find_problem(reference.spec, seen) or _engine_mismatch(reference.spec, spec):
        return Problem(problem.reason, f"the Model {name} cannot be served: {problem.message}", problem.remedy)
    awaited = reference.spec.prefetch and not model_cache.is_own(spec)
    return _prefetch_problem(name, reference.stored) if awaited else None


def _prefetch_problem(name: str, stored: Stored) -> Problem | None:
    """Return a problem while the prefetch of a Model is not complete; None: it is."""
    status, current = stored.status, int(stored.status.get("observedGeneration", 0)) >= stored.meta.generation
    if current and status.get("phase") == "Ready":
        return None
    if current and status.get("phase") == "Failed":
        return _prefetch_failure(name, stored_condition(status, "Ready"))
    message = f"the weights of the Model {name} are being fetched"
    return Problem(Reason.WAITING_FOR_MODEL, message, "wait; the status of the Model shows the progress")


def _prefetch_failure(name: str, ready: Json) -> Problem:
    """Return why the prefetch failed, with the reason of the Model, so that one look at the service is enough."""
    said = ready.get("reason")
    return Problem(
        Reason(said) if said in PROBLEMS else Reason.PREFETCH_FAILED,
        f"the weights of the Model {name} could not be fetched: {ready.get('message', '')}",
        "fix the Model; the fetch is retried",
    )


def _engine_mismatch(model: ModelSpec, spec: InferenceServiceSpec) -> Problem | None:
    if model.hardware.accelerator is Accelerator.METAL:
        return None
    return model_volumes.engine_mismatch(model, ENGINES[spec.runtime].loads, skip_init=bool(spec.skip_model_init))
