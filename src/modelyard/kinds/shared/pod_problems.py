"""Why pods do not run, read from their status: images, crashes, nodes, scheduling.

Messages are stable, without restart counts and back-off times: the same problem is one write of the status.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from modelyard.core.conditions import Problem, stored_condition
from modelyard.core.reasons import Reason
from modelyard.kinds.shared import scheduling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from modelyard.core.objects import Stored

Json = dict[str, Any]

_IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_CRASH_LOOP_RESTARTS = 2
_KILLED_FOR_MEMORY = "OOMKilled"
_STOPPED_WITH_NODE = "NodeStopped"
"""What the node of one machine calls the end of a container that ran when the machine was stopped."""
_RECENT_SECONDS = 600.0
_LONGEST_CAUSE = 256
_TIME = re.compile(r"^\W?(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d\S*\s+")


class Remedies(Struct, frozen=True):
    """Remedies that name fields, which differ between kinds."""

    memory: str = "raise spec.resources.limits.memory"
    room: str = "free or add capacity, or lower spec.resources.requests"
    beside: str = ""
    """For a pod that has to run beside others; empty: there are no such pods."""


DEFAULT_REMEDIES = Remedies()
NO_RESOURCES = Remedies(room="free or add capacity")
"""For an object that states no resources: the little that its pods request cannot be lowered."""
_VOLUME_REMEDY = "check its claims with `kubectl describe pvc`; their storage class may be missing"
_CORDONED_REMEDY = "let a node take pods again with `kubectl uncordon`, or add one"
_CLAIM_DELETED_REMEDY = "set spec.replicas of all services that use the claim to 0 until it is deleted"


def first_problem(pods: Iterable[Stored], remedies: Remedies = DEFAULT_REMEDIES) -> Problem | None:
    """Return the problem of the first pod that has one; None: no pod has. Pods that are being deleted do not count."""
    there = (pod for pod in pods if not pod.meta.deleting)
    problems = (
        container_problem(pod, remedies) or node_problem(pod) or _scheduling_problem(pod, remedies) for pod in there
    )
    return next((problem for problem in problems if problem), None)


def node_problem(pod: Stored) -> Problem | None:
    """Return a problem if the node of a pod is lost; None: it reports.

    A kubelet sets Ready and ContainersReady together. When it is silent, the control plane turns Ready to False and
    leaves ContainersReady. A pod with readiness gates may show the same and be healthy.
    """
    status, spec = pod.status, pod.spec
    said = [stored_condition(status, kind).get("status") for kind in ("Ready", "ContainersReady")]
    if said != ["False", "True"] or spec.get("readinessGates"):
        return None
    return Problem(
        Reason.NODE_NOT_READY,
        f"a pod is on the node {spec.get('nodeName', '')}, which is not ready",
        "fix the node, or wait: Kubernetes replaces the pod after five minutes if another node has room",
    )


def start_problem(pod: Stored, now: datetime) -> Problem | None:
    """Return a problem if a node has prepared the volumes and the network of a pod for too long; None: it has not.

    Images are pulled after that, and may take longer.
    """
    placement = scheduling.placement_of(pod)
    if not placement.preparing_since or scheduling.starting_seconds_left(placement, now):
        return None
    return Problem(
        Reason.ROLLOUT_STUCK,
        f"a pod waits on the node {pod.spec.get('nodeName', '')} for its volumes or its network",
        f"see `kubectl describe pod {pod.meta.name}`; a ReadWriteOnce claim can be used on one node only",
    )


def probe_remark(pods: Iterable[Stored]) -> str:
    """Return how the probes of the first pod that is not ready fail, where its node says so; empty: it does not.

    A kubelet lists the containers and no more; the node of one machine adds how their probes fail.
    """
    conditions = (stored_condition(pod.status, "ContainersReady") for pod in pods if not pod.meta.deleting)
    said = (str(each.get("message", "")).partition("]; ")[2] for each in conditions if each.get("status") == "False")
    return next(filter(None, said), "")[:_LONGEST_CAUSE]


def recently_failed(pods: Iterable[Stored], now: datetime) -> list[Stored]:
    """Return the pods of the last ten minutes with phase Failed. Older ones prove nothing: they stay for ever."""
    return [pod for pod in pods if pod.status.get("phase") == "Failed" and _age(pod, now) < _RECENT_SECONDS]


def _age(pod: Stored, now: datetime) -> float:
    created = pod.meta.creation_timestamp
    return (now - datetime.fromisoformat(created)).total_seconds() if created else 0.0


def repeated_failure(pods: Sequence[Stored]) -> Problem | None:
    """Return why pods fail one after the other, rejected or evicted by their node; None: at most one failed."""
    if len(pods) < _CRASH_LOOP_RESTARTS:
        return None
    status = max(pods, key=lambda pod: pod.meta.creation_timestamp or "").status
    # After the first sentence come amounts, which differ each time.
    said = re.split(r"\.\s|, requested:", str(status.get("message", "")))[0].rstrip(".")
    cause = ": ".join(part for part in (str(status.get("reason", "")), said[:512]) if part) or "no reason given"
    return Problem(
        Reason.PODS_FAILING,
        f"pods fail one after the other ({cause})",
        "fix their node, or avoid it with spec.nodeSelector",
    )


def container_problem(pod: Stored, remedies: Remedies) -> Problem | None:
    """Return the problem of the first container of a pod that has one; None: no container has."""
    status = pod.status
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    unready_since = str(stored_condition(status, "Ready").get("lastTransitionTime", ""))
    blamed = (one for one in containers if not one.get("ready") and not _was_ready(one, unready_since))
    return next((problem for one in blamed if (problem := _status_problem(pod, one, remedies))), None)


def _was_ready(status: Json, unready_since: str) -> bool:
    """Return whether a container was ready since it last started: then its earlier crashes are history."""
    started = str(status.get("state", {}).get("running", {}).get("startedAt") or "")
    return bool(started) and started < unready_since


def _status_problem(pod: Stored, status: Json, remedies: Remedies) -> Problem | None:
    name, waiting = status.get("name", ""), status.get("state", {}).get("waiting", {})
    reason = waiting.get("reason", "")
    if reason in _IMAGE_REASONS:
        return Problem(
            Reason.IMAGE_PULL_FAILED,
            f"image {status.get('image', '')} of container {name} cannot be pulled",
            _image_remedy(reason, str(waiting.get("message", ""))),
        )
    if reason in _CONFIG_REASONS:
        return _config_problem(name, str(waiting.get("message", "")))
    ended = _last_termination(status)
    if ended.get("reason") == _STOPPED_WITH_NODE:
        # It starts anew with the machine. The restarts that it had before are history.
        return None
    looping = reason == "CrashLoopBackOff" or status.get("restartCount", 0) >= _CRASH_LOOP_RESTARTS
    # Reported at the first time: a container that ran out of memory will do so again.
    if looping or ended.get("reason") == _KILLED_FOR_MEMORY:
        return crash_problem(pod, name, ended, remedies)
    return None


def _last_termination(status: Json) -> Json:
    """Return the last `terminated` state of a container; empty: it never ended."""
    found = (status.get(name, {}).get("terminated") for name in ("state", "lastState"))
    return next((ended for ended in found if ended), {})


def _image_remedy(reason: str, message: str) -> str:
    # While a pull is retried, the message alternates between its cause and "Back-off", and each would be a write. Only
    # for images that are never pulled is it stable.
    if reason == "ErrImageNeverPull" and message:
        return message[:512]
    return "check its name and tag, and imagePullSecrets if the registry is private"


def _config_problem(container: str, message: str) -> Problem:
    # The kubelet adds the name of the pod. The next pod has another, and the same problem would be written again.
    message = re.sub(r"\s*\(pod: .*$", "", message, flags=re.DOTALL)
    remedy = "fix what the message names"
    if "runAsNonRoot" in message or "non-root" in message:
        remedy = "set podSecurityContext.runAsUser to a number other than 0, or use an image that does not run as root"
    return Problem(Reason.CONTAINER_CONFIG_INVALID, f"container {container} cannot be created: {message[:512]}", remedy)


def crash_problem(pod: Stored, container: str, terminated: Json, remedies: Remedies) -> Problem:
    """Return the problem of a container that keeps exiting, from its last `terminated` state."""
    if terminated.get("reason") == _KILLED_FOR_MEMORY:
        return Problem(
            Reason.OUT_OF_MEMORY,
            f"container {container} ran out of memory and was killed",
            remedies.memory,
        )
    code, cause = terminated.get("exitCode", "unknown"), last_words(str(terminated.get("message", "")))
    return Problem(
        Reason.CRASH_LOOP,
        f"container {container} keeps exiting (exit code {code})" + (f": {cause}" if cause else ""),
        f"see `kubectl logs --previous -c {container} {pod.meta.name}`",
    )


def last_words(message: str) -> str:
    """Return the last line of a termination message, which most programs end with the cause; empty: it has none.

    Without the time at its beginning: the same cause would be news at every restart.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    # Lines in JSON are for programs, and the line of a downloader is read elsewhere.
    if not lines or lines[-1].startswith("{"):
        return ""
    return "".join(filter(str.isprintable, _TIME.sub("", lines[-1])))[:_LONGEST_CAUSE].rstrip(";. ")


def _scheduling_problem(pod: Stored, remedies: Remedies) -> Problem | None:
    placement = scheduling.placement_of(pod)
    return unschedulable(placement, remedies) if placement.waits else None


def unschedulable(placement: scheduling.Placement, remedies: Remedies) -> Problem:
    """Return the problem of a pod for which the scheduler finds no node."""
    beside = remedies.beside if scheduling.waits_for_room_beside(placement) else ""
    cordoned = _CORDONED_REMEDY if scheduling.waits_for_uncordon(placement) else ""
    remedy = _volume_remedy(placement) or beside or cordoned or remedies.room
    return Problem(Reason.UNSCHEDULABLE, f"no node can run a pod: {placement.message[:512]}", remedy)


def _volume_remedy(placement: scheduling.Placement) -> str:
    if scheduling.waits_for_claim_deletion(placement):
        return _CLAIM_DELETED_REMEDY
    return _VOLUME_REMEDY if scheduling.waits_for_binding(placement) else ""
