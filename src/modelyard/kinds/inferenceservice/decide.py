"""The decision of an InferenceService, for plan and status: its Model, what is wrong with it, and the resolved pod.

It has no memory: everything follows from the spec and from what is seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.kinds.inferenceservice import references
from modelyard.kinds.inferenceservice.references import Reference
from modelyard.kinds.inferenceservice.resolved import ResolvedPod, resolve_pod
from modelyard.kinds.model.api import Accelerator

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec


class ServiceDecision(Struct, frozen=True):
    """Which Model is served, and by which pod."""

    model: Reference
    problem: Problem | None
    """Why the Models cannot be served (yet); None: they can."""
    pod: ResolvedPod | None
    """The resolved pod; None: there is a problem."""

    @property
    def on_a_mac(self) -> bool:
        """Whether the Model runs on a Mac outside the cluster, under its agent."""
        spec = self.model.spec
        return spec is not None and spec.hardware.accelerator is Accelerator.METAL


def decide(service: Object[InferenceServiceSpec], seen: Seen) -> ServiceDecision:
    """Return the decision of one InferenceService."""
    main, draft = references.model_reference(service.spec, seen), references.draft_reference(service.spec, seen)
    problem = references.find_problem(service.spec, (main, draft), seen)
    return ServiceDecision(main, problem, None if problem else resolve_pod(service, main, draft, seen))
