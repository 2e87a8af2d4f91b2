"""A Job that runs `modelyard fetch`: which ends of its pods are failures, its own conditions, and its pod at work.

The prefetch of a Model and the download of a ModelDeployment are such Jobs. Kubernetes calls the first part a
podFailurePolicy.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from modelyard.core.checks.log_tail import LogTail
from modelyard.core.exitcodes import Code
from modelyard.core.plan import RequeueAfter
from modelyard.kinds.contract import Asked
from modelyard.kinds.shared import fetch_report, pod_problems, scheduling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.core.conditions import Problem
    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Seen

Json = dict[str, Any]

NEW_POD_SECONDS: Final = 10.0
"""How long the problems of a new pod are not reported."""

_PERMANENT_CODES: Final = tuple(int(code) for code in fetch_report.FAILURES if code != Code.TRANSIENT)
"""Exit codes after which another try would fail in the same way."""


def failure_policy_rules() -> list[Json]:
    """Return the podFailurePolicy. A pod that was stopped or evicted is no failed try: the next one resumes."""
    return [
        {"action": "FailJob", "onExitCodes": _exit_codes(*_PERMANENT_CODES)},
        {"action": "Ignore", "onExitCodes": _exit_codes(int(Code.STOPPED))},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]


def _exit_codes(*codes: int) -> Json:
    return {"containerName": fetch_report.CONTAINER, "operator": "In", "values": list(codes)}


def true_condition(job: Stored, how: str) -> Json:
    """Return a condition of a Job that is True, such as Complete or Failed; empty: it is not, or not yet."""
    entries = job.status.get("conditions") or ()
    return next((entry for entry in entries if entry.get("type") == how and entry.get("status") == "True"), {})


def seconds_until(job: Stored, since_failed: float, now: datetime) -> float:
    """Return the seconds until so many have passed since a Job failed; the whole time if it does not say when."""
    try:
        failed_at = datetime.fromisoformat(true_condition(job, "Failed")["lastTransitionTime"])
    except (KeyError, TypeError, ValueError):
        return since_failed
    return max(0.0, since_failed - (now - failed_at).total_seconds())


def log_check(pods: Iterable[Stored]) -> Asked | None:
    """Return the check of the log of the pod that is fetching; None: none is."""
    at_work = (pod for pod in pods if not pod.meta.deleting and fetch_report.running_downloader(pod))
    pod = next(at_work, None)
    return Asked(LogTail(pod.meta.namespace, pod.meta.name, fetch_report.CONTAINER)) if pod else None


def find_problem(pods: Iterable[Stored], now: datetime, remedies: pod_problems.Remedies) -> Problem | None:
    """Return what keeps a pod of a Job from running; None: nothing, or the pod is new."""
    return pod_problems.first_problem((pod for pod in pods if _new_for(pod, now) <= 0), remedies)


def recheck_new_pod(pods: Iterable[Stored], now: datetime) -> RequeueAfter | None:
    """Return when a pod is new no more; None: none is new. One that is not scheduled does not change by itself."""
    left = [seconds for pod in pods if (seconds := _new_for(pod, now)) > 0]
    return RequeueAfter(min(left), "the pod of the download is new") if left else None


def _new_for(pod: Stored, now: datetime) -> float:
    """Return for how many seconds the problems of a pod are not reported yet."""
    if not pod.meta.creation_timestamp:
        return 0.0
    grace = (
        scheduling.BINDING_SECONDS if scheduling.waits_for_binding(scheduling.placement_of(pod)) else NEW_POD_SECONDS
    )
    return grace - (now - datetime.fromisoformat(pod.meta.creation_timestamp)).total_seconds()


def progress_line(seen: Seen, pods: Iterable[Stored]) -> Json:
    """Return the last line that the pod which is fetching has logged; empty: not known."""
    log = log_check(pods)
    answer = seen.answer(log) if log else None
    return answer.value if answer and answer.ok else {}
