"""The children of an InferenceService: claims, a Deployment, a Service, perhaps an autoscaler, or an InferenceModel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core.plan import Child, Plan, RequeueAfter
from modelyard.core.resources import AUTOSCALER, DEPLOYMENT, SERVICE
from modelyard.engines import ENGINES
from modelyard.kinds.contract import Owned
from modelyard.kinds.inferencemodel.api import RESOURCE as INFERENCE_MODEL
from modelyard.kinds.inferenceservice import handover, metal, naming, observed, pod
from modelyard.kinds.inferenceservice.metal_memory import over_budget
from modelyard.kinds.shared import autoscale, secrets, workloads
from modelyard.kinds.shared.autoscale import AutoscalerConfig

if TYPE_CHECKING:
    from modelyard.core.resources import Ref, Resource
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec, Metric
    from modelyard.kinds.inferenceservice.decide import ServiceDecision
    from modelyard.kinds.shared.resolved_pod import ResolvedPod

Json = dict[str, Any]

SERVICE_PORT = 8080
_TOO_LARGE = RequeueAfter(0.0, "no host may load it, and the status has to say why")
PROGRESS_DEADLINE = 3600
"""Seconds. Weights take a while to arrive and to load, and by default a rollout counts as stuck after ten minutes."""


def plan(service: Object[InferenceServiceSpec], seen: Seen, decision: ServiceDecision) -> Plan:
    """Return the plan of one service; blocked while its Model cannot be served."""
    if problem := decision.problem:
        later = secrets.requeue_after(service, seen.now, problem)
        if service.spec.replicas == 0:
            # Without its Model the Deployment cannot be planned. But replicas: 0 must stop it, so it is deleted.
            return Plan(delete=_existing(seen, AUTOSCALER, DEPLOYMENT, INFERENCE_MODEL), requeue_after=later)
        return Plan(blocked=problem, requeue_after=later)
    return _on_hosts(service, seen, decision) if decision.on_hosts else _in_pods(service, seen, decision)


def _in_pods(service: Object[InferenceServiceSpec], seen: Seen, decision: ServiceDecision) -> Plan:
    """Return the plan of a service that pods serve. Hosts that served before go on until all pods are ready."""
    resolved = decision.pod
    assert resolved, "without a problem the pod is resolved"
    name, scaling = service.meta.name, autoscaler_config(service.spec)
    labels = naming.child_labels(name)
    return Plan(
        apply=(
            *resolved.storage.claims,
            deployment(service, resolved, scaling, seen),
            service_child(service, seen),
            *autoscale.autoscaler(name, labels, scaling, target=name),
        ),
        delete=(*autoscale.obsolete(scaling, seen), *handover.hosts_to_leave(service, seen)),
        requeue_after=observed.requeue_after(service, seen),
    )


def _on_hosts(service: Object[InferenceServiceSpec], seen: Seen, decision: ServiceDecision) -> Plan:
    """Return the plan of a service that hosts outside the cluster serve. Pods go on until all hosts are ready."""
    if not seen.serves(INFERENCE_MODEL):
        return Plan()
    if problem := over_budget(service.spec, decision.model):
        hosted = handover.leavable_hosts(seen)
        return Plan(delete=hosted, requeue_after=_TOO_LARGE) if hosted else Plan(blocked=problem)
    return Plan(
        # The Service first: if its name is taken, nothing may lead its clients to our hosts.
        apply=(service_child(service, seen, on_hosts=True), metal.child(service, decision.model)),
        delete=handover.pods_to_leave(service, seen),
    )


def deployment(
    service: Object[InferenceServiceSpec], resolved: ResolvedPod, scaling: AutoscalerConfig | None, seen: Seen
) -> Child:
    """Return the Deployment. With GPUs its strategy is Recreate: there may be no spare GPU for a new pod."""
    name = service.meta.name
    return workloads.deployment(
        name,
        naming.pod_labels(service),
        naming.selector(name),
        autoscale.replicas(service.spec.replicas, scaling, seen),
        pod.template(service, resolved, seen.policy),
        strategy="Recreate" if resolved.devices.count else "RollingUpdate",
        progress_deadline=PROGRESS_DEADLINE,
    )


def service_child(service: Object[InferenceServiceSpec], seen: Seen, *, on_hosts: bool = False) -> Child:
    """Return the Service in front of pods and hosts. It selects pods even if there are none.

    Kubernetes' controller does not take back the slices of a Service that loses its selector, so that pods which are
    gone would get requests. And it leaves slices of other managers alone, so that those of hosts need no other Service.
    """
    name, asked, stored = service.meta.name, service.spec.endpoint, seen.one(Owned(SERVICE))
    port, kind = (asked.port, asked.type) if asked else (SERVICE_PORT, "ClusterIP")
    # Hosts may have addresses of either family. A Service that has both keeps them: clients may hold either.
    is_dual = on_hosts or (stored is not None and stored.spec.get("ipFamilyPolicy") == workloads.DUAL_STACK)
    return workloads.service(
        naming.service_name(name),
        naming.child_labels(name),
        naming.selector(name),
        port,
        kind,
        families=workloads.DUAL_STACK if is_dual else "",
    )


def autoscaler_config(spec: InferenceServiceSpec) -> AutoscalerConfig | None:
    """Return the configuration of the autoscaler; None: none is wanted."""
    asked = spec.autoscaling
    if asked is None:
        return None
    metrics = tuple(_metric(metric) for metric in asked.metrics) or (_requests_in_progress(spec.runtime),)
    return AutoscalerConfig(asked.max_replicas, asked.min_replicas, metrics)


def _requests_in_progress(runtime: str) -> Json:
    name = ENGINES[runtime].metric or ENGINES["llamacpp"].metric
    return autoscale.pods_metric(name, autoscale.REQUESTS_PER_POD)


def _metric(metric: Metric) -> Json:
    if metric.type == "Pods":
        return autoscale.pods_metric(metric.name, metric.target_average_value)
    target = {"type": "Utilization", "averageUtilization": metric.target_average_utilization}
    return {"type": "Resource", "resource": {"name": metric.name, "target": target}}


def _existing(seen: Seen, *resources: Resource) -> tuple[Ref, ...]:
    return tuple(found.ref for resource in resources for found in seen.all(Owned(resource)))
