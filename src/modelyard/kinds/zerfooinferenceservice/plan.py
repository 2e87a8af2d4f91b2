"""The children of a ZerfooInferenceService: a Deployment, two Services and perhaps an autoscaler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modelyard.core.plan import Child, CreateOnly, Plan, Replicas
from modelyard.engines import ENGINES
from modelyard.kinds.shared import autoscale, engine_pod, pods, secrets, workloads
from modelyard.kinds.shared.autoscale import AutoscalerConfig
from modelyard.kinds.zerfooinferenceservice import naming
from modelyard.kinds.zerfooinferenceservice.api import PORT
from modelyard.kinds.zerfooinferenceservice.naming import PRIMARY

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.zerfooinferenceservice.api import ZerfooInferenceServiceSpec
    from modelyard.kinds.zerfooinferenceservice.decide import Decision
    from modelyard.kinds.zerfooinferenceservice.server import Server

PROGRESS_DEADLINE: Final = 3600
"""Seconds. Models take a while to arrive and to load, and by default a rollout counts as stuck after ten minutes."""


def plan(service: Object[ZerfooInferenceServiceSpec], seen: Seen, decision: Decision) -> Plan:
    """Return the plan of one service; blocked while its model cannot be served."""
    if problem := decision.primary.problem:
        return Plan(blocked=problem, requeue_after=secrets.requeue_after(service, seen.now, problem))
    name, scaling = service.meta.name, autoscaler_config(service.spec)
    common, target = naming.child_labels(name), naming.track_name(name, PRIMARY)
    return Plan(
        apply=(
            *track(service, seen, decision.primary, primary_replicas(service.spec, seen)),
            workloads.service(naming.service_name(name), common, naming.selector(name, PRIMARY), PORT),
            *autoscale.autoscaler(naming.autoscaler_name(name), common, scaling, target),
        ),
        delete=autoscale.obsolete(scaling, seen),
        requeue_after=autoscale.requeue_after(service.before, seen),
    )


def track(
    service: Object[ZerfooInferenceServiceSpec], seen: Seen, server: Server, replicas: Replicas
) -> tuple[Child | CreateOnly, ...]:
    """Return the claims, the Deployment and the Service of a server whose pod is resolved."""
    pod, named = server.pod, naming.track_name(service.meta.name, server.served.track)
    assert pod, "without a problem the pod is resolved"
    labels = naming.track_labels(service.meta.name, server.served.track)
    selector = naming.selector(service.meta.name, server.served.track)
    return (
        *pod.storage.claims,
        workloads.deployment(
            named,
            labels,
            selector,
            replicas,
            pods.pod_template(labels, engine_pod.pod_spec(server.spec, pod, seen.policy)),
            # There may be no spare GPU for a new pod.
            strategy="Recreate" if pod.devices.count else "RollingUpdate",
            progress_deadline=PROGRESS_DEADLINE,
        ),
        workloads.service(named, labels, selector, PORT),
    )


def primary_replicas(spec: ZerfooInferenceServiceSpec, seen: Seen) -> Replicas:
    """Return the replicas of the primary, within the bounds of its autoscaler."""
    scaling = autoscaler_config(spec)
    wanted = min(spec.replicas, scaling.max_replicas) if scaling else spec.replicas
    return autoscale.replicas(wanted, scaling, seen)


def autoscaler_config(spec: ZerfooInferenceServiceSpec) -> AutoscalerConfig | None:
    """Return the configuration of the autoscaler; None: none is wanted. Without a metric it goes by the use of CPU."""
    if not spec.max_replicas:
        return None
    metric = ENGINES[spec.runtime].metric
    metrics = (autoscale.pods_metric(metric, autoscale.REQUESTS_PER_POD),) if metric else ()
    return AutoscalerConfig(spec.max_replicas, spec.min_replicas, metrics)


def scales_by_cpu(spec: ZerfooInferenceServiceSpec) -> bool:
    """Return whether the autoscaler goes by the use of CPU, which has to be requested then."""
    return bool(spec.max_replicas) and not ENGINES[spec.runtime].metric
