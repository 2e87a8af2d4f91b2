"""The observed state of an InferenceService, from its Deployment, its pods and the outcome: the facts of its phase.

Only pods of the latest template are blamed. A pod of an earlier one may crash long after the cause was fixed, because
Kubernetes keeps it until a new one is ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from modelyard.core import names
from modelyard.core.conditions import Problem, stored_condition
from modelyard.core.diff import first_difference
from modelyard.core.objects import Json, Stored
from modelyard.core.plan import RequeueAfter
from modelyard.core.reasons import Reason
from modelyard.core.resources import DEPLOYMENT, POD, PRIORITY_CLASS, SERVICE
from modelyard.kinds.contract import Named, Owned
from modelyard.kinds.inferencemodel.api import RESOURCE as INFERENCE_MODEL
from modelyard.kinds.inferenceservice import handover, metal
from modelyard.kinds.inferenceservice.naming import priority_class
from modelyard.kinds.inferenceservice.phases import PhaseFacts
from modelyard.kinds.shared import autoscale, fetch_report, pod_problems, scheduling, workloads
from modelyard.kinds.shared.pods import FINISHED
from modelyard.kinds.shared.scheduling import Placement

if TYPE_CHECKING:
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec
    from modelyard.kinds.inferenceservice.decide import ServiceDecision

_REMEDIES = pod_problems.Remedies(
    memory="raise spec.resources.memory, so that it gets a node with enough",
    room="free or add capacity, lower spec.resources, or change spec.nodeSelector or spec.tolerations",
)
_NOTHING_TO_LOWER = "free or add capacity, or change spec.nodeSelector or spec.tolerations"
_MUTATED_LISTS = ("tolerations",)
"""What of a pod is never as its template says, because the cluster adds to the list."""
_FAILED = RequeueAfter(60.0, "pods failed a short while ago")


class ObservedPods(Struct, frozen=True):
    """The pods of a service, read once for the whole status."""

    latest: tuple[Stored, ...] = ()
    """Pods of the latest template that have not finished and are not being deleted."""
    failed: tuple[Stored, ...] = ()
    """Pods of the latest template whose phase turned to Failed lately."""
    remaining: int = 0
    terminating: int = 0
    ready: int = 0
    ready_devices: frozenset[str] = frozenset()
    """The extended resources of pods that are ready."""
    preempted: bool = False
    waiting: Placement | None = None
    """The placement of the first pod that waits for a node, preferably for GPUs; None: none waits."""


def observe_pods(seen: Seen) -> ObservedPods:
    """Return the pods of a service."""
    deployment, all_pods = seen.one(Owned(DEPLOYMENT)), seen.all(Owned(POD))
    vendors = scheduling.gpu_vendors(deployment)
    pods = [(pod, scheduling.placement_of(pod, vendors)) for pod in all_pods if pod.status.get("phase") not in FINISHED]
    told = (
        placement
        for _, placement in pods
        if placement.waits and not scheduling.binding_seconds_left(placement, seen.now)
    )
    waiting = sorted(told, key=lambda one: not one.missing_gpu)
    return ObservedPods(
        latest=_latest(deployment, [pod for pod, _ in pods if not pod.meta.deleting]),
        failed=_latest(deployment, pod_problems.recently_failed(all_pods, seen.now)),
        remaining=len(pods),
        terminating=sum(pod.meta.deleting for pod, _ in pods),
        ready=sum(placement.ready and not placement.preempted for _, placement in pods),
        ready_devices=frozenset(name for _, placement in pods if placement.ready for name, _ in placement.gpus),
        preempted=any(placement.preempted for _, placement in pods),
        waiting=waiting[0] if waiting else None,
    )


def requeue_after(service: Object[InferenceServiceSpec], seen: Seen) -> RequeueAfter | None:
    """Return when to reconcile again for what is reported, or no longer reported, after a while; None: nothing is."""
    pods = seen.all(Owned(POD))
    waits = [
        *filter(None, [scheduling.recheck_binding(pods, seen.now)]),
        *([_FAILED] if pod_problems.recently_failed(pods, seen.now) else []),
        *filter(None, [autoscale.requeue_after(service.before, seen)]),
    ]
    return min(waits, key=lambda wait: wait.seconds, default=None)


def _latest(deployment: Stored | None, pods: list[Stored]) -> tuple[Stored, ...]:
    if deployment is None or not pods:
        return ()
    # Not simply the newest: a pod of an earlier template may be replaced later, or created in the same second.
    template = _template(deployment)
    alike = [pod for pod in pods if first_difference(template, pod.to_dict()) is None]
    if not alike and _has_no_updated_pods(deployment):
        return ()
    newest = max(alike or pods, key=lambda pod: pod.meta.creation_timestamp or "")
    latest = newest.meta.label("pod-template-hash")
    return tuple(pod for pod in pods if pod.meta.label("pod-template-hash") == latest)


def _template(deployment: Stored) -> Json:
    """Return the Pod of a template, without what the cluster changes in pods."""
    template = deployment.spec.get("template", {})
    spec = {name: value for name, value in template.get("spec", {}).items() if name not in _MUTATED_LISTS}
    meta = {name: template.get("metadata", {}).get(name, {}) for name in ("labels", "annotations")}
    return {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": meta, "spec": spec}


def _has_no_updated_pods(deployment: Stored) -> bool:
    """Return whether the Deployment has not created pods of the latest template yet."""
    status = deployment.status
    observed = int(status.get("observedGeneration", 0)) >= deployment.meta.generation
    return not observed or not status.get("updatedReplicas")


def phase_facts(
    service: Object[InferenceServiceSpec], seen: Seen, decision: ServiceDecision, outcome: Outcome, pods: ObservedPods
) -> PhaseFacts:
    """Return the facts that decide the phase of a service."""
    deployment, hosted = seen.one(Owned(DEPLOYMENT)), seen.one(Owned(INFERENCE_MODEL))
    if decision.on_hosts or (hosted and not deployment):
        return metal.facts(service, seen, decision.problem, outcome)
    rollout = workloads.read_rollout(deployment)
    model = decision.problem
    preempted = _is_preempted(service, rollout, pods)
    # The scheduler deletes a pod before the Deployment counts it out.
    ready = min(rollout.ready, pods.ready) if preempted else rollout.ready
    complete = rollout.complete and rollout.wanted > 0 and not preempted
    busy = rollout.wanted > 0 and not complete
    pod_problem = _pod_problem(service, seen, rollout, pods, preempted=preempted) if busy else None
    return PhaseFacts(
        model=model,
        obstacle=None if model else outcome.problem,
        trouble=pod_problem or (workloads.service_problem(seen.one(Owned(SERVICE))) if rollout.wanted else None),
        shortage=shortage(pods) if busy else None,
        refused=busy and _refusal(service, seen, rollout) is not None,
        scale_applied=_is_scale_applied(service, deployment),
        scaled_by_other=service.spec.replicas > 0,
        wanted=rollout.wanted,
        ready=ready,
        of_before=handover.ready_hosts(seen),
        pods_left=max(pods.remaining, rollout.ready) + metal.hosts_left(hosted),
        remark=pod_problems.probe_remark(pods.latest) if busy else "",
        old_pods_stopping=_is_stopping_old_pods(deployment, pods),
        complete=complete,
    )


def _is_scale_applied(service: Object[InferenceServiceSpec], deployment: Stored | None) -> bool:
    """Return whether the replicas of the spec have reached the Deployment. Before, zero pods do not mean stopped."""
    return deployment is not None and (service.spec.replicas == 0 or deployment.meta.annotation(names.REPLICAS) != "0")


def _is_stopping_old_pods(deployment: Stored | None, pods: ObservedPods) -> bool:
    """Return whether new pods wait until all old ones have stopped (strategy Recreate)."""
    strategy = deployment.spec.get("strategy", {}).get("type") if deployment else ""
    return strategy == "Recreate" and 0 < pods.terminating == pods.remaining


def shortage(pods: ObservedPods) -> Problem | None:
    """Return a problem if a pod waits for GPUs; None: none does."""
    if pods.waiting is None or not pods.waiting.missing_gpu:
        return None
    return Problem(
        Reason.INSUFFICIENT_GPU,
        f"no node that a pod may use has {waiting_for(pods)} free",
        "it starts by itself when one has, and spec.priority decides who comes first; if such GPUs are free, compare "
        "spec.tolerations, spec.nodeSelector and spec.resources with their nodes. A machine without any never gets "
        "one: to serve on its CPUs, ask for none in spec.resources.gpu and hardware.gpu of the Model",
    )


def waiting_for(pods: ObservedPods) -> str:
    """Return the GPUs that a pod waits for, such as `nvidia.com/gpu: 2`; empty: none does."""
    if pods.waiting is None or not pods.waiting.missing_gpu:
        return ""
    return f"{pods.waiting.missing_gpu}: {dict(pods.waiting.gpus)[pods.waiting.missing_gpu]}"


def _is_preempted(service: Object[InferenceServiceSpec], rollout: workloads.Rollout, pods: ObservedPods) -> bool:
    """Return whether a pod was preempted and not all pods are back. The status remembers it: the pod is soon gone."""
    if rollout.wanted == 0:
        return False
    served_again = rollout.complete and pods.ready >= rollout.wanted
    remembered = stored_condition(service.before, "Degraded").get("reason") == Reason.PREEMPTED
    return (pods.preempted or remembered) and not served_again


def _pod_problem(
    service: Object[InferenceServiceSpec],
    seen: Seen,
    rollout: workloads.Rollout,
    pods: ObservedPods,
    *,
    preempted: bool,
) -> Problem | None:
    """Return what keeps pods from serving; None: nothing. What a user must fix goes before what may pass."""
    if problem := _container_problem(pods) or _refusal(service, seen, rollout) or _node_problem(pods, seen):
        return problem
    if preempted:
        return Problem(
            Reason.PREEMPTED,
            "a pod was preempted by one with a higher priority",
            "it starts again when there is room; raise spec.priority to prevent this",
        )
    if pods.waiting:
        return None if pods.waiting.missing_gpu else pod_problems.unschedulable(pods.waiting, _remedies(service))
    if problem := pod_problems.repeated_failure(pods.failed):
        return problem
    fetching = any(fetch_report.running_downloader(pod) for pod in pods.latest)
    return None if fetching else rollout.problem


def _remedies(service: Object[InferenceServiceSpec]) -> pod_problems.Remedies:
    asked = service.spec.resources
    if asked.cpu or asked.memory or asked.host_memory or asked.gpu:
        return _REMEDIES
    return replace(_REMEDIES, room=_NOTHING_TO_LOWER)


def _container_problem(pods: ObservedPods) -> Problem | None:
    found = (_download_problem(pod) or pod_problems.container_problem(pod, _REMEDIES) for pod in pods.latest)
    return next((problem for problem in found if problem), None)


def _node_problem(pods: ObservedPods, seen: Seen) -> Problem | None:
    found = (pod_problems.node_problem(pod) or pod_problems.start_problem(pod, seen.now) for pod in pods.latest)
    return next((problem for problem in found if problem), None)


def _download_problem(pod: Stored) -> Problem | None:
    ended = fetch_report.pod_report(pod)
    return ended.problem if ended else None


def _refusal(service: Object[InferenceServiceSpec], seen: Seen, rollout: workloads.Rollout) -> Problem | None:
    if rollout.problem is None or rollout.problem.reason is not Reason.PODS_REFUSED:
        return None
    name = priority_class(service.spec)
    if seen.one(Named(PRIORITY_CLASS, name)):
        return (
            _outdated_refusal(name)
            if f"no PriorityClass with name {name} was" in rollout.problem.message
            else rollout.problem
        )
    return Problem(
        Reason.PRIORITY_CLASS_NOT_FOUND,
        f"the PriorityClass {name} does not exist, so the cluster refuses to create pods",
        "create it, or name another in spec.priorityClassName",
    )


def _outdated_refusal(name: str) -> Problem:
    """Return the problem of a refusal from before the PriorityClass existed: there is only to wait."""
    return Problem(
        Reason.ROLLOUT_STUCK,
        f"the cluster refused to create pods before the PriorityClass {name} existed",
        "wait; Kubernetes retries within minutes",
    )
