"""The objects that make a model be served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core.plan import Child, Plan
from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, SERVICE
from modelyard.engines import ENGINES
from modelyard.kinds.contract import Owned
from modelyard.kinds.inferenceservice import naming, observed, pod
from modelyard.kinds.shared import autoscale, secrets, workloads
from modelyard.kinds.shared.autoscale import AutoscalerConfig

if TYPE_CHECKING:
    from modelyard.core.resources import Ref, Resource
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec, Metric
    from modelyard.kinds.inferenceservice.decide import Decision
    from modelyard.kinds.inferenceservice.resolved import Serving

Json = dict[str, Any]

SERVICE_PORT = 8080
REQUESTS_PER_POD = "2"
PROGRESS_DEADLINE = 3600
"""Weights take a while to arrive and to load; Kubernetes would call a roll-out stuck after ten minutes."""


def plan(service: Object[InferenceServiceSpec], seen: Seen, decision: Decision) -> Plan:
    """Return everything that should exist for one service."""
    if problem := decision.problem:
        later = secrets.requeue_after(service, seen.now, problem)
        if service.spec.replicas == 0:
            # Without its Model the pods cannot be planned, but nobody wants them: whoever says so must be heard.
            return Plan(delete=_existing(seen, AUTOSCALER, DEPLOYMENT), requeue_after=later)
        return Plan(blocked=problem, requeue_after=later)
    if decision.on_a_mac:
        return Plan(delete=_existing(seen, AUTOSCALER, SERVICE, DEPLOYMENT))
    what = decision.pod
    assert what, "without a problem the pod is resolved"
    name, scaling = service.meta.name, scaled(service.spec)
    labels = naming.of_children(name)
    return Plan(
        apply=(
            *what.storage.claims,
            deployment(service, what, scaling, seen),
            endpoint(service.spec, name),
            *autoscale.autoscaler(name, labels, scaling, target=name),
        ),
        delete=autoscale.obsolete(scaling, seen),
        requeue_after=observed.requeue_after(service, seen),
    )


def deployment(
    service: Object[InferenceServiceSpec], what: Serving, scaling: AutoscalerConfig | None, seen: Seen
) -> Child:
    """Return the Deployment. With GPUs the old pod goes first: there may be no spare GPU for the new one."""
    name = service.meta.name
    return workloads.deployment(
        name,
        naming.of_pods(service),
        naming.selector(name),
        autoscale.replicas(service.spec.replicas, scaling, seen),
        pod.template(service, what, seen.policy),
        strategy="Recreate" if what.devices.count else "RollingUpdate",
        progress_deadline=PROGRESS_DEADLINE,
    )


def endpoint(spec: InferenceServiceSpec, name: str) -> Child:
    """Return the Service in front of the pods."""
    asked = spec.endpoint
    port, kind = (asked.port, asked.type) if asked else (SERVICE_PORT, "ClusterIP")
    return workloads.service(naming.service_name(name), naming.of_children(name), naming.selector(name), port, kind)


def scaled(spec: InferenceServiceSpec) -> AutoscalerConfig | None:
    """Return how the number of pods follows the load, if at all."""
    asked = spec.autoscaling
    if asked is None:
        return None
    metrics = tuple(_metric(metric) for metric in asked.metrics) or (_requests_in_progress(spec.runtime),)
    return AutoscalerConfig(asked.max_replicas, asked.min_replicas, metrics)


def _requests_in_progress(runtime: str) -> Json:
    name = ENGINES[runtime].metric or ENGINES["llamacpp"].metric
    return _of_pods(name, REQUESTS_PER_POD)


def _metric(metric: Metric) -> Json:
    if metric.type == "Pods":
        return _of_pods(metric.name, metric.target_average_value)
    target = {"type": "Utilization", "averageUtilization": metric.target_average_utilization}
    return {"type": "Resource", "resource": {"name": metric.name, "target": target}}


def _of_pods(name: str, value: str | None) -> Json:
    return {
        "type": "Pods",
        "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": value}},
    }


def _existing(seen: Seen, *resources: Resource) -> tuple[Ref, ...]:
    return tuple(found.ref for resource in resources for found in seen.all(Owned(resource)))
