"""What keeps pods from running, read from the pods themselves.

Messages are stable: no restart counts and no back-off times, so that the same trouble is written to a status once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.kinds.shared import scheduling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.core.stored import Stored

Json = dict[str, Any]

_IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_RESTARTS_THAT_ARE_A_LOOP = 2


class Remedies(Struct, frozen=True):
    """What to do about trouble, where that names fields which kinds call differently."""

    memory: str = "raise resources.limits.memory"
    room: str = "free or add what is missing, or lower resources.requests"


USUAL = Remedies()


def first_trouble(pods: Iterable[Stored], remedies: Remedies = USUAL) -> Problem | None:
    """Return the trouble of the first pod that has any; pods that are going away are left out."""
    troubles = (of_containers(pod, remedies) or _unscheduled(pod, remedies) for pod in pods if not pod.meta.deleting)
    return next((problem for problem in troubles if problem), None)


def of_containers(pod: Stored, remedies: Remedies) -> Problem | None:
    """Return what keeps the first container that has trouble from running."""
    status = pod.status
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    return next((problem for one in containers if (problem := _container_trouble(one, remedies))), None)


def _container_trouble(status: Json, remedies: Remedies) -> Problem | None:
    if status.get("ready"):
        return None
    name, waiting = status.get("name", ""), status.get("state", {}).get("waiting", {})
    reason = waiting.get("reason", "")
    if reason in _IMAGE_REASONS:
        return Problem(
            Reason.IMAGE_PULL_FAILED,
            f"image {status.get('image', '')} of container {name} cannot be pulled",
            _image_remedy(reason, str(waiting.get("message", ""))),
        )
    if reason in _CONFIG_REASONS:
        return _config_trouble(name, str(waiting.get("message", "")))
    if reason == "CrashLoopBackOff" or status.get("restartCount", 0) >= _RESTARTS_THAT_ARE_A_LOOP:
        return crash(name, status.get("lastState", {}).get("terminated", {}), remedies)
    return None


def _image_remedy(reason: str, message: str) -> str:
    # While a pull is tried again and again, the message changes between its cause and "Back-off". A node that does not
    # pull says once what is missing.
    if reason == "ErrImageNeverPull" and message:
        return message[:512]
    return "check its name and tag, and imagePullSecrets if the registry is private"


def _config_trouble(container: str, message: str) -> Problem:
    # The kubelet adds which pod it speaks of; the next pod would make the same trouble look like news.
    message = re.sub(r"\s*\(pod: .*$", "", message, flags=re.DOTALL)
    remedy = "correct what the message names"
    if "runAsNonRoot" in message:
        remedy = "set podSecurityContext.runAsUser to a number other than 0, or use an image that does not run as root"
    return Problem(Reason.CONTAINER_CONFIG_INVALID, f"container {container} cannot be created: {message[:512]}", remedy)


def crash(container: str, terminated: Json, remedies: Remedies) -> Problem:
    """Return what is known of a container that keeps exiting, from how it ended last."""
    if terminated.get("reason") == "OOMKilled":
        return Problem(
            Reason.OUT_OF_MEMORY,
            f"container {container} was killed because it ran out of memory",
            remedies.memory,
        )
    code = terminated.get("exitCode", "unknown")
    return Problem(
        Reason.CRASH_LOOP,
        f"container {container} keeps exiting (exit code {code})",
        f"read its output with `kubectl logs --previous -c {container}`",
    )


def _unscheduled(pod: Stored, remedies: Remedies) -> Problem | None:
    placement = scheduling.look(pod)
    return unscheduled(placement, remedies) if placement.waits else None


def unscheduled(placement: scheduling.Placement, remedies: Remedies) -> Problem:
    """Return what the scheduler misses for a pod."""
    return Problem(Reason.UNSCHEDULABLE, f"no node can take a pod: {placement.complaint[:512]}", remedies.room)
