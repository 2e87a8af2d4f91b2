"""The change-over of a service between pods and hosts outside the cluster, when the accelerator of its Model changes.

What served before goes on until all that is wanted serves in its place: both are behind the one Service of the
InferenceService. What serves nothing goes at once. `plan` asks what may go, `observed` counts what still serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.conditions import Truth, stored_condition
from modelyard.core.resources import AUTOSCALER, DEPLOYMENT
from modelyard.kinds.contract import Owned
from modelyard.kinds.inferencemodel.api import RESOURCE as INFERENCE_MODEL
from modelyard.kinds.shared import workloads

if TYPE_CHECKING:
    from modelyard.core.objects import Json, Stored
    from modelyard.core.resources import Ref
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec


def hosts_to_leave(service: Object[InferenceServiceSpec], seen: Seen) -> tuple[Ref, ...]:
    """Return the InferenceModel of a service that pods serve; empty: there is none, or it serves in their place."""
    pods_serve = workloads.read_rollout(seen.one(Owned(DEPLOYMENT))).complete
    stays = service.spec.replicas and not pods_serve and ready_hosts(seen)
    return () if stays else leavable_hosts(seen)


def leavable_hosts(seen: Seen) -> tuple[Ref, ...]:
    """Return the InferenceModel that has to leave its hosts; empty: there is none, or it is leaving them already."""
    return tuple(one.ref for one in seen.all(Owned(INFERENCE_MODEL)) if not one.meta.deleting)


def pods_to_leave(service: Object[InferenceServiceSpec], seen: Seen) -> tuple[Ref, ...]:
    """Return what runs pods of a service that hosts serve; empty: there is nothing, or it serves in their place."""
    hosted = seen.one(Owned(INFERENCE_MODEL))
    hosts_serve = hosted is not None and current_ready(hosted).get("status") == Truth.TRUE
    if service.spec.replicas and not hosts_serve and ready_pods(seen):
        return ()
    # The autoscaler first: it would complain that its Deployment is gone.
    return tuple(one.ref for resource in (AUTOSCALER, DEPLOYMENT) for one in seen.all(Owned(resource)))


def ready_pods(seen: Seen) -> int:
    """Return how many pods of the Deployment are ready."""
    return workloads.read_rollout(seen.one(Owned(DEPLOYMENT))).ready


def ready_hosts(seen: Seen) -> int:
    """Return how many hosts get requests for the InferenceModel, also while it is deleted."""
    hosted = seen.one(Owned(INFERENCE_MODEL))
    return int(hosted.status.get("readyReplicas", 0)) if hosted else 0


def current_ready(hosted: Stored) -> Json:
    """Return the condition Ready of an InferenceModel for its latest spec; empty: it has not said yet."""
    is_current = int(hosted.status.get("observedGeneration", 0)) >= hosted.meta.generation
    return stored_condition(hosted.status, "Ready") if is_current else {}
