"""The download of a ModelDeployment: a Job that runs `modelyard fetch`, its stage, and why it failed.

A Job cannot be changed. When something that decides about its success changes, it is deleted, and the next reconcile
creates another one, which resumes. Kubernetes removes a finished Job after an hour; from then on the status remembers
that the weights are there, or that they cannot be fetched. Nothing is lost without that memory: a new Job finds the
manifest of complete weights on the volume and ends at once.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from modelyard.core.conditions import Problem, stored_condition
from modelyard.core.diff import fingerprint
from modelyard.core.plan import CreateOnly, RequeueAfter
from modelyard.core.reasons import Reason
from modelyard.core.resources import JOB, POD, SECRET, VOLUME_CLAIM
from modelyard.kinds.contract import Named, Owned
from modelyard.kinds.modeldeployment import naming, sharing, weights
from modelyard.kinds.modeldeployment.api import RETRY, WEIGHTS_LABEL, DownloadProgress
from modelyard.kinds.modeldeployment.placement import MOVE, placement
from modelyard.kinds.shared import fetch_job, fetch_report, pod_problems, pods, secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.modeldeployment.api import ModelDeploymentSpec

Json = dict[str, Any]

ATTEMPT: Final = "modelyard.dev/attempt"
"""Annotation of the Job: a hash of all that may decide whether it succeeds, the content of the Secret included."""
GENERATION: Final = "modelyard.dev/generation"
"""Annotation of the Job: the generation of the object for which it was created."""
RETRY_SECONDS: Final = 300.0
"""How long a Job that failed for a reason that may pass stays before it is replaced."""
PODS: Final = Owned(POD, naming.DOWNLOAD)

_KEPT_SECONDS: Final = 3600
_POD_DUE_SECONDS: Final = 60.0
"""How long a new Job may take to create its first pod before that is reported."""
_LASTING: Final = ("PodFailurePolicy", "DeadlineExceeded")
"""Reasons of a failed Job that another try does not change."""
_REMEDIES: Final = pod_problems.Remedies(
    memory="free memory on its node, or raise the limit that a LimitRange of the namespace sets",
    room="free or add capacity, or change spec.nodeSelector and spec.tolerations; with spec.gpus, a node needs the "
    "label nvidia.com/gpu.present=true",
    beside=MOVE,
)
_WORDS: Final = {
    "spec.source of the Model": weights.FIELD,
    "spec.sourceSecretRef of the Model, or spec.source itself if it is a plain URL": "spec.sourceSecretRef",
    "spec.sha256 of the Model": "spec.checksums",
    "spec.checksums of the ModelDeployment": "spec.checksums",
    "enlarge the volume": "raise spec.storage.size",
    "fsGroup of spec.podSecurityContext": "--default-fsgroup of the operator",
}
_ASK_AGAIN: Final = f"after that, change the spec or the Secret, or set the annotation {RETRY} to a new value"


class Stage(StrEnum):
    """The stage of the weights that are wanted."""

    TO_BEGIN = "there is no Job"
    RUNNING = "the Job is at work"
    OUTDATED = "the Job has to make room for another"
    RETRYING = "the Job failed, and another one follows"
    FAILED = "the Job failed, and another one would too"
    PRESENT = "the weights are complete"


def reads(md: Object[ModelDeploymentSpec], seen: Seen) -> Iterator[Read]:
    """Name the Jobs, their pods, and the log of the pod that is fetching."""
    yield Owned(JOB)
    yield PODS
    if log := fetch_job.log_check(pods_of(md, seen)):
        yield log


def stage(md: Object[ModelDeploymentSpec], seen: Seen) -> Stage:
    """Return the stage of the weights that are wanted."""
    if not weights.is_fetched(md.spec) or _is_verified(md, seen):
        return Stage.PRESENT
    job = wanted_job(md, seen)
    if job is None:
        return Stage.FAILED if md.before.get("failedAttempt") == attempt(md, seen) else Stage.TO_BEGIN
    if fetch_job.true_condition(job, "Complete"):
        return Stage.PRESENT if _has_claim(md, seen, job) else Stage.OUTDATED
    return _incomplete(md, seen, job)


def _incomplete(md: Object[ModelDeploymentSpec], seen: Seen, job: Stored) -> Stage:
    if job.meta.annotation(ATTEMPT) != _annotations(md, seen)[ATTEMPT]:
        return Stage.OUTDATED
    failed = fetch_job.true_condition(job, "Failed")
    if not failed:
        return Stage.RUNNING
    if job.meta.annotation(GENERATION) != str(md.meta.generation):
        return Stage.OUTDATED
    if failed.get("reason") in _LASTING:
        return Stage.OUTDATED if _has_other_room(md, seen) else Stage.FAILED
    return Stage.RETRYING if fetch_job.seconds_until(job, RETRY_SECONDS, seen.now) > 0 else Stage.OUTDATED


def wanted_job(md: Object[ModelDeploymentSpec], seen: Seen) -> Stored | None:
    """Return the Job that fetches the weights that are wanted; None: there is none."""
    key = weights.key(md.spec)
    return next((job for job in seen.all(Owned(JOB)) if job.meta.label(WEIGHTS_LABEL) == key), None)


def _is_verified(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    """Return whether the status says that the weights are on the claim, and the claim is still the same."""
    verified = md.before.get("weights") or {}
    claim = seen.one(Named(VOLUME_CLAIM, weights.claim_name(md)))
    if claim is None or verified.get("key") != weights.key(md.spec):
        return False
    return (verified.get("claim"), verified.get("claimUid")) == (claim.meta.name, claim.meta.uid)


def _has_claim(md: Object[ModelDeploymentSpec], seen: Seen, job: Stored) -> bool:
    """Return whether the claim that a Job was created for still exists: a newer one may be empty.

    When the Job is complete proves nothing. A claim that is deleted meanwhile goes when the last pod is done, and the
    next one is there before the Job is.
    """
    claim = seen.one(Named(VOLUME_CLAIM, weights.claim_name(md)))
    began = job.meta.creation_timestamp or ""
    # Compared as text: all times of the API have one format, in UTC.
    return claim is not None and (not began or (claim.meta.creation_timestamp or "") <= began)


def obsolete(md: Object[ModelDeploymentSpec], seen: Seen, reached: Stage) -> tuple[Stored, ...]:
    """Return the Jobs that have to go: of other weights, or outdated. A complete one stays until Kubernetes removes it.

    Some may be going already.
    """
    wanted = wanted_job(md, seen)
    kept = wanted if reached is not Stage.OUTDATED else None
    return tuple(job for job in seen.all(Owned(JOB)) if job is not kept)


def attempt(md: Object[ModelDeploymentSpec], seen: Seen) -> str:
    """Return the name of a try, which changes with the spec, the Secret, the retry annotation and the room there is."""
    claim = seen.one(Named(VOLUME_CLAIM, weights.claim_name(md)))
    room = claim.status.get("capacity", {}).get("storage", "") if claim else ""
    return f"{_try(md, seen)}-{room}"


def _try(md: Object[ModelDeploymentSpec], seen: Seen) -> str:
    return f"{_annotations(md, seen)[ATTEMPT]}-{md.meta.generation}"


def _has_other_room(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    """Return whether the volume has another size than when the try failed.

    A volume grows a while after its claim asks for it. A Job that is created in between finds no room once more.
    """
    failed = str(md.before.get("failedAttempt", ""))
    return failed.startswith(_try(md, seen)) and failed != attempt(md, seen)


def pods_of(md: Object[ModelDeploymentSpec], seen: Seen) -> list[Stored]:
    """Return the pods that fetch the weights that are wanted. Those of earlier weights may still be going."""
    key = weights.key(md.spec)
    return [pod for pod in seen.all(PODS) if pod.meta.label(WEIGHTS_LABEL) == key]


def has_started(md: Object[ModelDeploymentSpec], seen: Seen) -> bool:
    """Return whether a pod of the Job has started to fetch."""
    return any(pod.status.get("phase", "Pending") != "Pending" for pod in pods_of(md, seen))


def find_problem(md: Object[ModelDeploymentSpec], seen: Seen) -> Problem | None:
    """Return what keeps a pod of the Job from fetching, or why the last one failed; None: nothing is known."""
    if problem := fetch_job.find_problem(pods_of(md, seen), seen.now, _REMEDIES):
        return problem
    job = wanted_job(md, seen)
    if job and not pods_of(md, seen) and _pod_due_in(job, seen) <= 0:
        # A Job tells in Events only why it cannot create pods.
        message = "the Job has no pod: a quota, a LimitRange or Pod Security may refuse it"
        return Problem(Reason.PODS_REFUSED, message, f"see `kubectl describe job {job.meta.name}`")
    # The failure of the last pod stands until the next one receives bytes: most likely it will fail in the same way.
    return None if progress(md, seen) else _reported(md, seen)


def _pod_due_in(job: Stored, seen: Seen) -> float:
    """Return the seconds that a Job may still take to create its pod, from when its controller has seen it."""
    started = str(job.status.get("startTime", ""))
    if not started:
        return _POD_DUE_SECONDS
    return _POD_DUE_SECONDS - (seen.now - datetime.fromisoformat(started)).total_seconds()


def failure(md: Object[ModelDeploymentSpec], seen: Seen, reached: Stage) -> Problem:
    """Return why the Job failed, and what happens next: from its pods, else from the Job, else from the status."""
    problem = _reported(md, seen) or _of_job(md, seen) or _remembered(md)
    next_step = "it is tried again every five minutes" if reached is Stage.RETRYING else _ASK_AGAIN
    if problem.remedy.endswith(next_step):
        return problem
    return Problem(problem.reason, problem.message, "; ".join(filter(None, (problem.remedy, next_step))))


def _reported(md: Object[ModelDeploymentSpec], seen: Seen) -> Problem | None:
    newest = sorted(pods_of(md, seen), key=lambda pod: pod.meta.creation_timestamp or "", reverse=True)
    reports = (fetch_report.pod_report(pod) for pod in newest)
    problem = next((report.problem for report in reports if report and report.problem), None)
    return fetch_report.with_words(problem, _words(md)) if problem else None


def _words(md: Object[ModelDeploymentSpec]) -> dict[str, str]:
    storage = md.spec.storage
    if not storage.existing_claim and not storage.retain:
        return _WORDS
    return {**_WORDS, "enlarge the volume": f"enlarge the claim {weights.claim_name(md)}"}


def _of_job(md: Object[ModelDeploymentSpec], seen: Seen) -> Problem | None:
    job = wanted_job(md, seen)
    failed = fetch_job.true_condition(job, "Failed") if job else {}
    if not failed:
        return None
    said = str(failed.get("message", ""))[:512] or "its Job gives no reason"
    remedy = (
        "raise spec.download.deadlineSeconds" if failed.get("reason") == _LASTING[1] else "see `kubectl describe job`"
    )
    return Problem(Reason.DOWNLOAD_FAILED, f"the download failed: {said}", remedy)


def _remembered(md: Object[ModelDeploymentSpec]) -> Problem:
    """Return the failure that the stored status tells of, for a Job that Kubernetes has removed."""
    stored = stored_condition(md.before, "WeightsPresent")
    known = stored.get("reason") in set(Reason)
    message, _, remedy = str(stored.get("message", "")).partition("; ")
    return Problem(
        Reason(stored["reason"]) if known else Reason.DOWNLOAD_FAILED, message or "the download failed", remedy
    )


def progress(md: Object[ModelDeploymentSpec], seen: Seen) -> DownloadProgress | None:
    """Return how far the download is; None: none runs, or nothing is known of it."""
    line = fetch_job.progress_line(seen, pods_of(md, seen))
    text = fetch_report.progress_text(line)
    if not text:
        return None
    done, total, speed, left = (_whole(line.get(name)) for name in ("bytes", "total", "bytesPerSecond", "etaSeconds"))
    words = text.removeprefix("downloading: ") + (f", {_span(left)} left" if left is not None else "")
    return DownloadProgress(done or 0, total, speed or 0, left, words)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**53 else None


def _span(seconds: int) -> str:
    """Return a span of time in the two largest of its units, as kubectl shows ages."""
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    return f"{minutes}m" if minutes < 120 else f"{minutes // 60}h{minutes % 60}m"


def requeue_after(md: Object[ModelDeploymentSpec], seen: Seen, reached: Stage) -> RequeueAfter | None:
    """Return when to look at the download again although nothing has changed; None: a change will come."""
    job = wanted_job(md, seen)
    waits = [fetch_job.recheck_new_pod(pods_of(md, seen), seen.now)] if reached is Stage.RUNNING else []
    if job and not pods_of(md, seen) and (left := _pod_due_in(job, seen)) > 0 and reached is Stage.RUNNING:
        waits.append(RequeueAfter(left, "the Job has no pod yet"))
    if reached is Stage.RETRYING and job:
        left = fetch_job.seconds_until(job, RETRY_SECONDS, seen.now)
        waits.append(RequeueAfter(left, "the download failed and is tried again"))
    if reached is not Stage.PRESENT and weights.secret_name(md.spec):
        waits.append(secrets.ROTATION)
    return min((wait for wait in waits if wait), key=lambda wait: wait.seconds, default=None)


def job(md: Object[ModelDeploymentSpec], seen: Seen, kept: tuple[str, ...]) -> CreateOnly:
    """Return the Job that fetches the weights, and first removes all others but those in the folders to keep, if any.

    What it keeps is no part of the try: it depends on when the Job is created.
    """
    key = weights.key(md.spec)
    name = naming.job_name(md.meta.name, key)
    meta = {
        "name": name,
        "labels": {**naming.pod_labels(md.meta.name, naming.DOWNLOAD), WEIGHTS_LABEL: key},
        "annotations": _annotations(md, seen),
    }
    body = {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": meta, "spec": _job_spec(md, seen, kept)}
    return CreateOnly(JOB, name, body)


def _annotations(md: Object[ModelDeploymentSpec], seen: Seen) -> dict[str, str]:
    name = weights.secret_name(md.spec)
    secret = secrets.digest(seen.one(Named(SECRET, name))) if name else ""
    decisive = {"spec": _job_spec(md, seen), "secret": secret, "retry": md.meta.annotation(RETRY)}
    return {ATTEMPT: fingerprint(decisive), GENERATION: str(md.meta.generation)}


def _job_spec(md: Object[ModelDeploymentSpec], seen: Seen, kept: tuple[str, ...] = ()) -> Json:
    asked = md.spec.download
    labels = {**naming.pod_labels(md.meta.name, naming.DOWNLOAD), WEIGHTS_LABEL: weights.key(md.spec)}
    spec = {
        "backoffLimit": asked.backoff_limit,
        "activeDeadlineSeconds": asked.deadline_seconds,
        "ttlSecondsAfterFinished": _KEPT_SECONDS,
        "podFailurePolicy": {"rules": fetch_job.failure_policy_rules()},
        "template": pods.pod_template(labels, _pod(md, seen, kept)),
    }
    return {name: value for name, value in spec.items() if value is not None}


def _pod(md: Object[ModelDeploymentSpec], seen: Seen, kept: tuple[str, ...]) -> Json:
    storage = weights.storage(md, seen.policy)
    (fetch,) = storage.init
    sums = (f"{name}={value.lower()}" for name, value in sorted(md.spec.checksums.items()))
    more = (*(("--checksum", entry) for entry in sums), *((sharing.PRUNE, folder) for folder in kept))
    args = [*fetch["args"], *(word for pair in more for word in pair)]
    return {
        "restartPolicy": "Never",
        "containers": [{**fetch, "args": args}],
        "volumes": list(storage.volumes),
        "securityContext": pods.pod_security(seen.policy.volume_group),
        **placement(md, seen),
    }
