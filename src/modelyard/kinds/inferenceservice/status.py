"""The status of an InferenceService.

When all goes well it is written twice from create to Ready: nothing in it changes while pods are scheduled, fetch for a
moment, start and load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core import names
from modelyard.core.conditions import Condition, Problem, Truth, condition, failing, stored_condition
from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.core.resources import DEPLOYMENT, PRIORITY_CLASS, SERVICE
from modelyard.kinds.contract import Named, Owned
from modelyard.kinds.inferencemodel.api import RESOURCE as INFERENCE_MODEL
from modelyard.kinds.inferenceservice import gpu_queue, metal, observed, phases
from modelyard.kinds.inferenceservice.api import PATH, Endpoint, InferenceServiceStatus
from modelyard.kinds.inferenceservice.ignored_fields import conditions as field_conditions
from modelyard.kinds.inferenceservice.naming import priority_class
from modelyard.kinds.inferenceservice.phases import PhaseFacts, ServicePhase, Verdict
from modelyard.kinds.shared import autoscale, fetch_progress, fetch_report, scheduling, workloads

if TYPE_CHECKING:
    from modelyard.core.objects import Stored
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec
    from modelyard.kinds.inferenceservice.decide import ServiceDecision
    from modelyard.kinds.inferenceservice.observed import ObservedPods

Json = dict[str, Any]

_SETTLED = (ServicePhase.READY, ServicePhase.STOPPED, ServicePhase.FAILED)


def on_error(before: Json, problem: Problem) -> Json:
    """Return the status fields to change when `summarise` cannot be called. Pods that were ready may still serve."""
    if before.get("readyReplicas"):
        return {"phase": ServicePhase.PROGRESSING.value}
    return {"phase": ServicePhase.FAILED.value} if problem.reason is Reason.INVALID_SPEC else {}


def summarise(
    service: Object[InferenceServiceSpec], seen: Seen, outcome: Outcome, decision: ServiceDecision
) -> InferenceServiceStatus:
    """Return the status of one service."""
    pods = observed.observe_pods(seen)
    known = observed.phase_facts(service, seen, decision, outcome, pods)
    verdict = phases.decide_phase(known)
    deployment, child = seen.one(Owned(DEPLOYMENT)), seen.one(Owned(SERVICE))
    hosted = seen.one(Owned(INFERENCE_MODEL)) if known.outside_cluster else None
    reachable = child is not None and workloads.service_problem(child) is None
    waiting = pods.waiting if known.wanted else None
    return InferenceServiceStatus(
        phase=verdict.phase,
        ready_replicas=known.serving,
        replicas=int(hosted.status.get("replicas", 0)) if hosted else replicas(known, deployment),
        desired_replicas=known.wanted,
        selector=selector(deployment),
        endpoint=endpoint(service, child),
        model_ready=known.model is None,
        effective_priority=priority(service, seen),
        scheduling_status=hosts_status(known, verdict) or scheduling_status(waiting),
        scheduling_message=hosts_message(known, verdict) or (waiting.message if waiting else ""),
        waiting_for=observed.waiting_for(pods) if known.wanted else "",
        queue_position=gpu_queue.position(service, seen) if verdict.phase is ServicePhase.WAITING_FOR_GPU else 0,
        conditions=(
            condition("Ready", verdict.phase is ServicePhase.READY, verdict.why.reason, verdict.why.message),
            available(known, verdict, reachable=reachable),
            progressing(known, verdict, fetch_progress.progress(service.meta.namespace, seen)),
            degraded(known, verdict),
            *gpus(known, pods, deployment),
            *transfer(service, known, pods, deployment),
            *autoscale.conditions(service.before, seen),
            *metal.memory_pressure(service.before, hosted),
            *field_conditions(service.spec, decision, hosted),
        ),
    )


def replicas(known: PhaseFacts, deployment: Stored | None) -> int:
    """Return the number of pods, for the scale subresource.

    Pods that are wanted count at once, unless the cluster refuses them: they exist a moment later, and that would be
    one more write.
    """
    live = int(deployment.status.get("replicas", 0)) if deployment else 0
    return live if known.refused else max(live, known.wanted)


def selector(deployment: Stored | None) -> str:
    """Return the label selector of the pods as text, for the scale subresource."""
    labels = deployment.spec.get("selector", {}).get("matchLabels", {}) if deployment else {}
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def endpoint(service: Object[InferenceServiceSpec], child: Stored | None) -> str:
    """Return the URL of the service inside the cluster; empty: its Service does not exist yet."""
    if child is None:
        return ""
    port = child.spec["ports"][0]["port"]
    return f"http://{names.service_host(child.meta.name, child.meta.namespace)}:{port}{path(service)}"


def path(service: Object[InferenceServiceSpec]) -> str:
    """Return the path of the URL of a service."""
    return (service.spec.endpoint or Endpoint()).path or PATH


def priority(service: Object[InferenceServiceSpec], seen: Seen) -> int:
    """Return the value of the PriorityClass of the pods; 0: it does not exist."""
    found = seen.one(Named(PRIORITY_CLASS, priority_class(service.spec)))
    return int(found.part("value") or 0) if found else 0


def hosts_status(known: PhaseFacts, verdict: Verdict) -> str:
    """Return in one word why no host outside the cluster serves; empty: one does, or none is wanted."""
    is_waiting = known.wanted and not known.ready and verdict.phase in (ServicePhase.CREATING, ServicePhase.PROGRESSING)
    if not known.outside_cluster or not is_waiting:
        return ""
    is_too_large = verdict.why.reason is Reason.INSUFFICIENT_MEMORY
    return Reason.INSUFFICIENT_MEMORY if is_too_large else Reason.WAITING_FOR_METAL_AGENT


def hosts_message(known: PhaseFacts, verdict: Verdict) -> str:
    """Return why no host outside the cluster serves; empty: one does, or none is wanted."""
    return verdict.why.message if hosts_status(known, verdict) else ""


def scheduling_status(waiting: scheduling.Placement | None) -> str:
    """Return in one word why a pod is not scheduled; empty: all are."""
    if waiting is None:
        return ""
    if waiting.missing_gpu:
        return Reason.INSUFFICIENT_GPU
    return "InsufficientResources" if "Insufficient " in waiting.message else Reason.UNSCHEDULABLE


def available(known: PhaseFacts, verdict: Verdict, *, reachable: bool) -> Condition:
    """Return the condition Available: whether a pod is ready and the Service can be reached."""
    if known.serving and reachable:
        reason = Reason.INFERENCE_READY if known.complete else Reason.ROLLING_OUT
        remark = "" if known.complete else known.meanwhile
        return condition("Available", True, reason, "; ".join(filter(None, (known.count, remark))))
    if known.serving or verdict.phase is ServicePhase.STOPPED:
        return condition("Available", False, verdict.why.reason, verdict.why.message)
    what = "host" if known.outside_cluster else "pod"
    return condition("Available", False, Reason.NO_READY_REPLICAS, f"no {what} is ready")


def progressing(known: PhaseFacts, verdict: Verdict, download: str) -> Condition:
    """Return the condition Progressing: whether something is under way that needs no user."""
    why = verdict.why
    if verdict.phase in (*_SETTLED, ServicePhase.PENDING):
        return condition("Progressing", verdict.phase is ServicePhase.PENDING, why.reason, why.message)
    if verdict.phase is ServicePhase.WAITING_FOR_GPU:
        return condition("Progressing", True, Reason.WAITING_FOR_GPU, "a pod waits for GPUs")
    if download:
        return condition("Progressing", True, Reason.DOWNLOADING, download)
    if why.reason in (Reason.STOPPING, Reason.WAITING_FOR_METAL_AGENT, Reason.LOADING):
        return condition("Progressing", True, why.reason, why.message)
    if hindrance := known.model or known.obstacle:
        return condition("Progressing", not phases.is_lasting(hindrance), hindrance.reason, hindrance.text)
    return condition("Progressing", True, Reason.CREATING, known.count)


def degraded(known: PhaseFacts, verdict: Verdict) -> Condition:
    """Return the condition Degraded: whether something is wrong, with the cause and the next step."""
    if known.problem and known.problem.reason in PROBLEMS:
        return failing("Degraded", known.problem, Truth.TRUE)
    return condition("Degraded", False, verdict.why.reason, "no problem is known")


def gpus(known: PhaseFacts, pods: ObservedPods, deployment: Stored | None) -> tuple[Condition, ...]:
    """Return the condition GPUAvailable; empty: the pods request no GPU, or none are wanted."""
    containers = template(deployment).get("spec", {}).get("containers", ())
    asked = scheduling.device_limits(one.get("resources", {}).get("limits", {}) for one in containers)
    if not asked or known.wanted == 0 or known.outside_cluster:
        return ()
    if known.shortage:
        return (failing("GPUAvailable", known.shortage),)
    # During a rollout the ready pods may be old ones, which may have no GPU.
    if known.complete or (known.ready and pods.ready_devices.issuperset(name for name, _ in asked)):
        devices = ", ".join(f"{name}: {amount}" for name, amount in asked)
        return (condition("GPUAvailable", True, Reason.SUFFICIENT_GPU, f"each pod has {devices}"),)
    return (condition("GPUAvailable", Truth.UNKNOWN, Reason.WAITING_FOR_PODS, "known once a pod is ready"),)


def transfer(
    service: Object[InferenceServiceSpec], known: PhaseFacts, pods: ObservedPods, deployment: Stored | None
) -> tuple[Condition, ...]:
    """Return the condition ModelTransferHealthy; empty: the pods fetch no weights, or none are wanted."""
    if known.wanted == 0 or known.outside_cluster or not fetch_report.fetches(template(deployment)):
        return ()
    ends = [ended for pod in pods.latest if (ended := fetch_report.pod_report(pod))]
    for problem in (ended.problem for ended in ends if ended.problem):
        return (failing("ModelTransferHealthy", problem),)
    # That weights have arrived is worth a write of its own only if the status said before that they were on their way.
    if known.complete or (ends and (known.ready or known.trouble or _was_told(service))):
        return (condition("ModelTransferHealthy", True, Reason.MODEL_TRANSFER_SUCCEEDED, "the weights are in place"),)
    return (condition("ModelTransferHealthy", Truth.UNKNOWN, Reason.WAITING_FOR_PODS, "known once a pod is ready"),)


def template(deployment: Stored | None) -> Json:
    """Return the pod template of the Deployment; empty: it does not exist."""
    found: Json = deployment.spec.get("template", {}) if deployment else {}
    return found


def _was_told(service: Object[InferenceServiceSpec]) -> bool:
    before = stored_condition(service.before, "ModelTransferHealthy").get("status")
    downloading = stored_condition(service.before, "Progressing").get("reason") == Reason.DOWNLOADING
    return downloading or before in (Truth.TRUE, Truth.FALSE)
