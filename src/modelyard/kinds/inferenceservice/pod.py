"""The pod template of an InferenceService: the pod of its engine, with labels and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.kinds.inferenceservice import naming
from modelyard.kinds.inferenceservice.api import CREATED
from modelyard.kinds.shared import engine_pod, pods

if TYPE_CHECKING:
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Object
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec
    from modelyard.kinds.shared.resolved_pod import ResolvedPod

Json = dict[str, Any]


def template(service: Object[InferenceServiceSpec], resolved: ResolvedPod, policy: Policy) -> Json:
    """Return the pod template of a service."""
    spec = service.spec
    pod = engine_pod.pod_spec(spec, resolved, policy, naming.priority_class(spec))
    return pods.pod_template({**spec.pod_labels, **naming.pod_labels(service)}, pod, pod_annotations(service))


def pod_annotations(service: Object[InferenceServiceSpec]) -> dict[str, str]:
    """Return the annotations of the user, and the creation time of the service, which the GPU queue sorts by."""
    created = service.meta.creation_timestamp
    return {**service.spec.pod_annotations, **({CREATED: created} if created else {})}
