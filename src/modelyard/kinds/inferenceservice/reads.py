"""The reads of an InferenceService: its children, its Models, their claims and Secrets, and the GPU queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, POD, PRIORITY_CLASS, SERVICE
from modelyard.kinds.contract import Named, Owned
from modelyard.kinds.inferencemodel.api import RESOURCE as INFERENCE_MODEL
from modelyard.kinds.inferenceservice import gpu_queue, naming
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.kinds.shared import fetch_progress, model_cache, model_volumes
from modelyard.kinds.shared.model_references import draft_reference, model_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec


def reads(service: Object[InferenceServiceSpec], seen: Seen) -> Iterator[Read]:
    """Name everything that decision, plan and status of a service depend on."""
    for resource in (DEPLOYMENT, SERVICE, AUTOSCALER, POD, INFERENCE_MODEL):
        yield Owned(resource)
    yield Named(PRIORITY_CLASS, naming.priority_class(service.spec))
    for reference in (model_reference(service.spec, seen), draft_reference(service.spec, seen)):
        if reference:
            yield Named(MODEL, reference.name)
        if reference and reference.spec:
            yield from model_volumes.reads(reference.spec)
    yield from model_cache.reads(service.spec)
    yield from gpu_queue.reads(service, seen)
    yield from fetch_progress.reads(service.meta.namespace, seen)
