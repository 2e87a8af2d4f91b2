"""The prefetch: a Job that fetches weights into the shared cache before a service needs them.

A Job cannot be changed. When other weights are wanted, the old Job is deleted, and the next reconcile creates the new
one. Kubernetes removes a finished Job after a day; from then on the status remembers that the weights are there.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelyard.core import names
from modelyard.core.conditions import Problem
from modelyard.core.diff import fingerprint
from modelyard.core.plan import CreateOnly, RequeueAfter
from modelyard.core.policy import CacheMode
from modelyard.core.reasons import Reason
from modelyard.core.resources import JOB, POD, SECRET
from modelyard.core.source import S3, Hub, Web, parse
from modelyard.engines.contract import Loads
from modelyard.kinds.contract import Named, Owned
from modelyard.kinds.model import weights_present
from modelyard.kinds.model.api import MODEL_LABEL, Accelerator, Format
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.kinds.shared import fetch_container, fetch_job, fetch_report, labels, model_volumes, pods, secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.model.api import ModelSpec

Json = dict[str, Any]

ORDER: Final = "modelyard.dev/order"
"""Annotation of the Job: a hash of what it fetches and where to. A complete Job stays good while this is the same."""
ATTEMPT: Final = "modelyard.dev/attempt"
"""Annotation of the Job: a hash of all that may decide whether it succeeds, the content of the Secret included."""

RETRY_SECONDS: Final = 600.0
"""How long a failed Job stays before it is replaced."""

_KEPT_SECONDS: Final = 86400
_AGAIN: Final = "it is retried every ten minutes"


class Stage(StrEnum):
    """The stage of a prefetch."""

    TO_BEGIN = "there is no Job"
    RUNNING = "the Job is at work"
    OUTDATED = "the Job has to make room for another"
    FAILED = "the Job failed a moment ago"
    DONE = "the weights are in the cache"


def is_wanted(spec: ModelSpec, policy: Policy) -> bool:
    """Return whether a Job is to fetch the weights."""
    return spec.prefetch and not obstacle(spec, policy)


def obstacle(spec: ModelSpec, policy: Policy) -> str:
    """Return why weights cannot be prefetched; empty: they can."""
    if spec.hardware.accelerator is Accelerator.METAL:
        return "the weights are on a Mac outside the cluster"
    if not isinstance(parse(spec.source), Web | Hub | S3):
        return "the weights are in the cluster already"
    if not policy.cache_path or policy.cache_mode is not CacheMode.SHARED:
        return "this cluster has no shared cache"
    return ""


def reads(model: Object[ModelSpec], seen: Seen) -> Iterator[Read]:
    """Name the Job, the claim of the cache, the pods of the Job, and the log of the one that is fetching."""
    yield Owned(JOB)
    if not is_wanted(model.spec, seen.policy):
        return
    yield weights_present.CACHE
    yield Owned(POD)
    if log := fetch_job.log_check(seen.all(Owned(POD))):
        yield log


def stage(model: Object[ModelSpec], seen: Seen) -> Stage:
    """Return the stage of a prefetch that is wanted."""
    job = seen.one(Owned(JOB))
    if job is None:
        memory = weights_present.stored_presence(model, seen)
        return Stage.DONE if memory and memory.confirmed else Stage.TO_BEGIN
    wanted = _annotations(model, seen)
    if complete := fetch_job.true_condition(job, "Complete"):
        since = str(complete.get("lastTransitionTime", ""))
        same = job.meta.annotation(ORDER) == wanted[ORDER] and weights_present.has_cache(seen, since)
        return Stage.DONE if same else Stage.OUTDATED
    failed = fetch_job.true_condition(job, "Failed")
    if job.meta.annotation(ATTEMPT) != wanted[ATTEMPT] or (failed and _retry_in(job, seen) <= 0):
        return Stage.OUTDATED
    return Stage.FAILED if failed else Stage.RUNNING


def retry_failed(seen: Seen) -> RequeueAfter | None:
    """Return when the failed Job is to be replaced; None: none has failed."""
    job = seen.one(Owned(JOB))
    if job is None or not fetch_job.true_condition(job, "Failed"):
        return None
    return RequeueAfter(_retry_in(job, seen), "the prefetch failed and is tried again")


def _retry_in(job: Stored, seen: Seen) -> float:
    return fetch_job.seconds_until(job, RETRY_SECONDS, seen.now)


def failure(seen: Seen, reported: Problem | None) -> Problem:
    """Return why the Job failed, and when it is retried: what its pod reported, or else the condition of the Job."""
    if reported:
        return msgspec.structs.replace(reported, remedy=f"{reported.remedy}; {_AGAIN}")
    job = seen.one(Owned(JOB))
    said = str(fetch_job.true_condition(job, "Failed").get("message", "")) if job else ""
    return Problem(
        Reason.PREFETCH_FAILED,
        f"the prefetch failed: {said[:512] or 'its Job gives no reason'}",
        f"see `kubectl describe job`; {_AGAIN}",
    )


def find_problem(seen: Seen) -> Problem | None:
    """Return what keeps a pod of the Job from running; None: nothing, or the pod is new."""
    return fetch_job.find_problem(seen.all(Owned(POD)), seen.now, fetch_report.REMEDIES)


def recheck_new_pod(seen: Seen) -> RequeueAfter | None:
    """Return when a new pod is to be checked again; None: there is none."""
    return fetch_job.recheck_new_pod(seen.all(Owned(POD)), seen.now)


def progress_text(seen: Seen) -> str:
    """Return the progress of the download, for a condition; empty: not known."""
    return fetch_report.progress_text(fetch_job.progress_line(seen, seen.all(Owned(POD))))


def children(model: Object[ModelSpec], seen: Seen) -> tuple[CreateOnly, ...]:
    """Return the claim of the cache and the Job."""
    body = _job(model, seen)
    return (*storage(model, seen.policy).claims, CreateOnly(JOB, body["metadata"]["name"], body))


def storage(model: Object[ModelSpec], policy: Policy) -> model_volumes.Storage:
    """Return the storage of a pod with the usual engine for the format of the weights."""
    loads = Loads.FILE if model.spec.format is Format.GGUF else Loads.FOLDER
    wanted = model_volumes.ModelToServe(model.meta.namespace, model.meta.name, model.spec)
    return model_volumes.storage(wanted, loads, policy, fetch_container.cache(policy, ""))


def _job(model: Object[ModelSpec], seen: Seen) -> Json:
    common = _labels(model.meta.name)
    meta = {
        "name": names.dns_label(f"{model.meta.name}-prefetch"),
        "labels": common,
        "annotations": _annotations(model, seen),
    }
    return {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": meta, "spec": _job_spec(model, seen.policy)}


def _labels(name: str) -> dict[str, str]:
    ours = labels.common(MODEL, name)
    # Without `app`: the Service of another kind with the same name selects by it, and would send requests to this pod.
    del ours["app"]
    documented = {names.NAME_LABEL: "llmkube", "app.kubernetes.io/component": "model-prefetch"}
    return {**ours, **documented, MODEL_LABEL: names.short(name)}


def _annotations(model: Object[ModelSpec], seen: Seen) -> dict[str, str]:
    spec = _job_spec(model, seen.policy)
    name = fetch_container.secret_name(model.spec, parse(model.spec.source))
    secret = secrets.digest(seen.one(Named(SECRET, name))) if name else ""
    (container,) = spec["template"]["spec"]["containers"]
    return {
        ORDER: fingerprint({"args": container["args"]}),
        ATTEMPT: fingerprint({"spec": spec, "secret": secret}),
    }


def _job_spec(model: Object[ModelSpec], policy: Policy) -> Json:
    parts = storage(model, policy)
    pod = {
        "restartPolicy": "Never",
        "containers": list(parts.init),
        "volumes": list(parts.volumes),
        "securityContext": pods.pod_security(policy.volume_group),
        "tolerations": list(model.spec.prefetch_tolerations),
    }
    return {
        "backoffLimit": 2,
        "ttlSecondsAfterFinished": _KEPT_SECONDS,
        "podFailurePolicy": {"rules": fetch_job.failure_policy_rules()},
        "template": pods.pod_template(_labels(model.meta.name), pod),
    }
