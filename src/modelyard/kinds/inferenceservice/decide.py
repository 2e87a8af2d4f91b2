"""The decision of an InferenceService, for plan and status: its Model, what is wrong with it, and the resolved pod.

It has no memory: everything follows from the spec and from what is seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.kinds.inferenceservice import metal
from modelyard.kinds.inferenceservice.client_names import client_names
from modelyard.kinds.shared.model_references import Reference, draft_reference, find_problem, model_reference
from modelyard.kinds.shared.resolved_pod import ResolvedPod, resolve_pod

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec


class ServiceDecision(Struct, frozen=True):
    """Which Model is served, and by which pod."""

    model: Reference
    problem: Problem | None
    """Why the Models cannot be served (yet); None: they can."""
    pod: ResolvedPod | None
    """The resolved pod; None: there is a problem, or hosts outside the cluster serve the Model."""

    @property
    def on_hosts(self) -> bool:
        """Whether hosts outside the cluster serve the Model, such as Macs."""
        return metal.is_for_macs(self.model.spec)


def decide(service: Object[InferenceServiceSpec], seen: Seen) -> ServiceDecision:
    """Return the decision of one InferenceService."""
    main, draft = model_reference(service.spec, seen), draft_reference(service.spec, seen)
    problem = find_problem(service.spec, (main, draft), seen) or metal.source_problem(main)
    if problem or metal.is_for_macs(main.spec):
        return ServiceDecision(main, problem, None)
    return ServiceDecision(main, None, resolve_pod(service, main, draft, seen.policy, client_names(service, seen)))
