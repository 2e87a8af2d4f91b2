"""The status of a ZerfooInferenceService: PrimaryReady and CanaryReady (the pods), TrafficSplit, Ready, and a phase.

When all goes well it is written twice from create to Ready.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from modelyard.core import names
from modelyard.core.conditions import Condition, Problem, Truth, condition, failing
from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.core.resources import DEPLOYMENT, POD, SERVICE
from modelyard.kinds.contract import Owned
from modelyard.kinds.shared import autoscale, fetch_progress, fetch_report, pod_problems, workloads
from modelyard.kinds.shared.scheduling import binding_seconds_left, placement_of
from modelyard.kinds.zerfooinferenceservice import naming
from modelyard.kinds.zerfooinferenceservice.api import PORT, TrackStatus, ZerfooInferenceServiceStatus
from modelyard.kinds.zerfooinferenceservice.naming import CANARY, PRIMARY
from modelyard.kinds.zerfooinferenceservice.observed import pods_of
from modelyard.kinds.zerfooinferenceservice.plan import scales_by_cpu
from modelyard.kinds.zerfooinferenceservice.split import canary_before, effective_weight, split_condition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from modelyard.core.objects import Stored
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.shared.workloads import Rollout
    from modelyard.kinds.zerfooinferenceservice.api import ZerfooInferenceServiceSpec
    from modelyard.kinds.zerfooinferenceservice.decide import Decision
    from modelyard.kinds.zerfooinferenceservice.server import Server

Json = dict[str, Any]

_REMEDIES = pod_problems.Remedies(
    memory="raise spec.resources.memory, so that it gets a node with enough",
    room="free or add capacity, or lower spec.resources",
)


class Phase(StrEnum):
    """One word for the state of a service."""

    PENDING = "Pending"
    PROGRESSING = "Progressing"
    READY = "Ready"
    DEGRADED = "Degraded"
    FAILED = "Failed"


def on_error(before: Json, problem: Problem) -> Json:
    """Return the status fields to change when `summarise` cannot be called. Pods that were ready may still serve."""
    serves = any(isinstance(track, dict) and track.get("readyReplicas") for track in before.get("tracks") or ())
    lasting = problem.reason is Reason.INVALID_SPEC
    phase = {"phase": (Phase.DEGRADED if serves else Phase.FAILED).value} if lasting or serves else {}
    return {"ready": False, "message": problem.text, **phase}


def summarise(
    service: Object[ZerfooInferenceServiceSpec], seen: Seen, outcome: Outcome, decision: Decision
) -> ZerfooInferenceServiceStatus:
    """Return the status of one service."""
    deployment = seen.one(Owned(DEPLOYMENT, PRIMARY))
    rollout = workloads.read_rollout(deployment)
    primary = (
        failing("PrimaryReady", outcome.problem)
        if outcome.problem and deployment is None
        else track_condition("PrimaryReady", service, seen, decision.primary, rollout)
    )
    canary = canary_ready(service, seen, outcome, decision)
    split = split_condition(service, seen, outcome, decision)
    ready = overall(outcome, primary, *canary, *split)
    told, address = tuple(tracks(service, seen, decision)), url(service, seen)
    return ZerfooInferenceServiceStatus(
        phase=phase(ready, answers=bool(address) and any(one.ready_replicas and one.effective_weight for one in told)),
        ready=ready.status is Truth.TRUE,
        replicas=replicas(rollout, deployment),
        selector=selector(service.meta.name),
        message="" if ready.status is Truth.TRUE else ready.message,
        tracks=told,
        url=address,
        conditions=(primary, *canary, *split, ready, *autoscaled(service, seen)),
    )


def canary_ready(
    service: Object[ZerfooInferenceServiceSpec], seen: Seen, outcome: Outcome, decision: Decision
) -> tuple[Condition, ...]:
    """Return the condition CanaryReady; empty: no canary is wanted."""
    if decision.canary is None:
        return ()
    # Without its Deployment, what holds up the whole plan holds up the canary.
    absent = seen.one(Owned(DEPLOYMENT, CANARY)) is None and decision.canary.problem is None
    if refused := outcome.refused.get(CANARY) or (outcome.problem if absent else None):
        return (failing("CanaryReady", refused),)
    return (track_condition("CanaryReady", service, seen, decision.canary, pods_of(seen, CANARY)),)


def track_condition(
    kind: str, service: Object[ZerfooInferenceServiceSpec], seen: Seen, server: Server, rollout: Rollout
) -> Condition:
    """Return the condition of a track: whether all its pods are ready."""
    if server.problem:
        return failing(kind, server.problem)
    if rollout.complete and rollout.wanted == 0:
        named = naming.track_name(service.meta.name, server.served.track)
        message = f"the Deployment {named} is scaled to zero; scale it up again to serve"
        return condition(kind, False, Reason.SCALED_TO_ZERO, message)
    if rollout.complete:
        return condition(kind, True, Reason.PODS_READY, f"{rollout.count}{bounds(service.spec, server)}")
    pods = seen.all(Owned(POD, server.served.track))
    late = [pod for pod in pods if not binding_seconds_left(placement_of(pod), seen.now)]
    if problem := pod_problem(late, rollout, seen):
        return failing(kind, problem)
    if download := fetch_progress.progress(service.meta.namespace, seen, server.served.track):
        return condition(kind, False, Reason.DOWNLOADING, download)
    said = "; ".join(filter(None, (rollout.count, pod_problems.probe_remark(pods))))
    return condition(kind, False, Reason.ROLLING_OUT if rollout.ready else Reason.STARTING, said)


def pod_problem(pods: Sequence[Stored], rollout: Rollout, seen: Seen) -> Problem | None:
    """Return what keeps pods from becoming ready; None: nothing that is known."""
    there = [pod for pod in pods if not pod.meta.deleting]
    reports = (report.problem for pod in there if (report := fetch_report.pod_report(pod)))
    fetching = any(fetch_report.running_downloader(pod) for pod in there)
    slow = (pod_problems.start_problem(pod, seen.now) for pod in there)
    failed = next(filter(None, (*reports, pod_problems.first_problem(there, _REMEDIES), *slow)), None)
    return failed or (None if fetching else rollout.problem)


def bounds(spec: ZerfooInferenceServiceSpec, server: Server) -> str:
    """Return a remark if the autoscaler does not let the primary have spec.replicas pods; empty: it does."""
    if server.served.track != PRIMARY or not spec.max_replicas:
        return ""
    if spec.min_replicas <= spec.replicas <= spec.max_replicas:
        return ""
    allowed = f"{spec.min_replicas} to {spec.max_replicas}"
    return f"; spec.replicas is {spec.replicas}, but the autoscaler allows {allowed}"


def overall(outcome: Outcome, *others: Condition) -> Condition:
    """Return the condition Ready: what needs attention first, then the first thing that is still under way."""
    if outcome.problem:
        return failing("Ready", outcome.problem)
    lacking = sorted(
        (one for one in others if one.status is not Truth.TRUE), key=lambda one: one.reason not in PROBLEMS
    )
    if lacking:
        return condition("Ready", False, Reason(lacking[0].reason), lacking[0].message)
    return condition("Ready", True, Reason.READY, "all pods are ready")


def phase(ready: Condition, *, answers: bool) -> Phase:
    """Return the phase, from the condition Ready and whether requests are answered, by whatever track."""
    if ready.status is Truth.TRUE:
        return Phase.READY
    if ready.reason in PROBLEMS:
        return Phase.DEGRADED if answers else Phase.FAILED
    return Phase.PROGRESSING if answers else Phase.PENDING


def tracks(service: Object[ZerfooInferenceServiceSpec], seen: Seen, decision: Decision) -> Iterator[TrackStatus]:
    """Yield the status of the primary, and of the canary while it is there."""
    effective = effective_weight(service, seen, decision)
    primary, canary = pods_of(seen, PRIMARY), pods_of(seen, CANARY)
    served = decision.primary.served.model
    yield TrackStatus(PRIMARY, served, primary.wanted, primary.ready, 100 - decision.weight, 100 - effective)
    if decision.canary or seen.one(Owned(DEPLOYMENT, CANARY)):
        # Of a canary that is being removed, only the status still knows the model.
        model = decision.canary.served.model if decision.canary else str(canary_before(service).get("model", ""))
        yield TrackStatus(CANARY, model, canary.wanted, canary.ready, decision.weight, effective)


def replicas(rollout: Rollout, deployment: Stored | None) -> int:
    """Return the number of pods of the primary, for the scale subresource.

    Pods that are wanted count at once: they exist a moment later, and that would be one more write.
    """
    return max(rollout.wanted, int(deployment.status.get("replicas", 0)) if deployment else 0)


def selector(name: str) -> str:
    """Return the label selector of the pods of the primary as text, for the scale subresource."""
    return ",".join(f"{label}={value}" for label, value in sorted(naming.selector(name, PRIMARY).items()))


def url(service: Object[ZerfooInferenceServiceSpec], seen: Seen) -> str:
    """Return the URL of the service inside the cluster; empty: its Service does not exist yet."""
    name = naming.service_name(service.meta.name)
    if not any(found.meta.name == name for found in seen.all(Owned(SERVICE))):
        return ""
    return f"http://{names.service_host(name, service.meta.namespace)}:{PORT}"


def autoscaled(service: Object[ZerfooInferenceServiceSpec], seen: Seen) -> tuple[Condition, ...]:
    """Return the condition Autoscaled if the autoscaler cannot work; empty: it can, or there is none."""
    if scales_by_cpu(service.spec) and not service.spec.resources.cpu:
        problem = Problem(
            Reason.AUTOSCALER_STUCK,
            "the autoscaler goes by the use of CPU, and the pods request none",
            "set spec.resources.cpu",
        )
        return (failing(autoscale.AUTOSCALED, problem),)
    return autoscale.conditions(service.before, seen)
