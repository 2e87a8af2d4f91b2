"""Names, labels and PriorityClass of the children of an InferenceService. Dashboards and clients rely on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core import names
from modelyard.kinds.inferenceservice.api import RESOURCE, RUNTIME_LABEL, SERVICE_LABEL
from modelyard.kinds.model.api import DRAFT_LABEL, MODEL_LABEL
from modelyard.kinds.shared import labels
from modelyard.kinds.shared.model_references import draft_name

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec

KIND = RESOURCE.kind.lower()


def service_name(name: str) -> str:
    """Return the name of the Service: that of the object, with dashes for dots, which Services may not have."""
    return name.replace(".", "-")


def selector(name: str) -> dict[str, str]:
    """Return the selector of pods. It is immutable, so the Model is not part of it."""
    return {**labels.selector(name), SERVICE_LABEL: names.short(name)}


def child_labels(name: str) -> dict[str, str]:
    """Return the labels of every child."""
    return {**labels.common(RESOURCE, name), **selector(name)}


def pod_labels(service: Object[InferenceServiceSpec]) -> dict[str, str]:
    """Return the labels of pods and of the Deployment."""
    spec = service.spec
    draft = draft_name(spec)
    return {
        **child_labels(service.meta.name),
        MODEL_LABEL: names.short(spec.model_ref),
        **({DRAFT_LABEL: names.short(draft)} if draft else {}),
        RUNTIME_LABEL: spec.runtime,
    }


def priority_class(spec: InferenceServiceSpec) -> str:
    """Return the name of the PriorityClass of the pods."""
    return spec.priority_class_name or f"llmkube-{spec.priority}"
