"""The condition WeightsPresent: whether the weights of a Model are there. Unknown until a pod has reported.

What a pod reported stays in the status while the source is the same and the shared cache exists: weights elsewhere go
with their pod or their service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.core import names
from modelyard.core.conditions import Condition, Problem, Truth, condition, failing, stored_condition
from modelyard.core.policy import CacheMode
from modelyard.core.reasons import Reason
from modelyard.core.resources import POD, VOLUME_CLAIM
from modelyard.core.selectors import Selector
from modelyard.core.source import Claim, cache_key, parse
from modelyard.engines.contract import Loads
from modelyard.kinds.contract import Every, Named
from modelyard.kinds.model.api import DRAFT_LABEL, MODEL_LABEL, Accelerator
from modelyard.kinds.model.sizes import size_text
from modelyard.kinds.shared import fetch_container, fetch_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Json, Stored
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.model.api import ModelSpec

TYPE = "WeightsPresent"
CACHE = Named(VOLUME_CLAIM, fetch_container.SHARED_CLAIM)


class Fetched(Struct, frozen=True):
    """The facet of a pod: how its download of these very weights ended."""

    args: tuple[str, ...]
    """The first arguments of the downloader."""
    container: str = fetch_report.CONTAINER
    shared: bool = False
    """Whether there is a cache that services share. What a service keeps elsewhere may go without a trace."""

    def __call__(self, pod: Stored) -> tuple[str, fetch_report.Report] | None:
        """Return the creation time of the pod and its report; None: it has none yet, or it is of other weights."""
        report = fetch_report.report(pod, self.container)
        if report is None or (report.problem is None and not report.file):
            return None
        if self.shared and fetch_container.kept_on(pod) not in ("", fetch_container.SHARED_CLAIM):
            return None
        if self.args != self._container_args(pod)[: len(self.args)]:
            return None
        return pod.meta.creation_timestamp or "", report

    def _container_args(self, pod: Stored) -> tuple[str, ...]:
        spec = pod.spec
        containers = [*spec.get("initContainers", ()), *spec.get("containers", ())]
        return tuple(next((one.get("args", ()) for one in containers if one.get("name") == self.container), ()))


class Presence(Struct, frozen=True):
    """What is known of the weights, and the condition that says so."""

    condition: Condition
    problem: Problem | None = None
    """Why pods could not fetch them; None: they could, or have not tried."""
    sha256: str = ""
    size: str = ""
    """Empty: not known."""
    etag: str = ""
    """The ETag that the source sent to the pod; empty: not known."""
    bytes: int = 0
    fetched_anew: bool = False
    """Whether pods have fetched other weights from the same source than before."""

    @property
    def confirmed(self) -> bool:
        """Whether a pod has verified the weights."""
        return self.condition.status is Truth.TRUE


def downloader_pods(model: Object[ModelSpec], policy: Policy) -> tuple[Every[tuple[str, fetch_report.Report]], ...]:
    """Return the reads of pods that fetch these weights, to serve them or to draft with them; empty: no pod does."""
    spec, meta = model.spec, model.meta
    source = parse(spec.source)
    if isinstance(source, Claim) or spec.hardware.accelerator is Accelerator.METAL:
        return ()
    args = fetch_container.identifying_args(
        fetch_container.FetchTask(meta.namespace, meta.name, spec, source, Loads.FILE), policy
    )
    name, shared = names.short(meta.name), _is_shared(policy)
    drafted = Fetched(args, fetch_report.DRAFT_CONTAINER, shared)
    return (
        Every(POD, Fetched(args, shared=shared), meta.namespace, Selector(((MODEL_LABEL, name),))),
        Every(POD, drafted, meta.namespace, Selector(((DRAFT_LABEL, name),))),
    )


def _is_shared(policy: Policy) -> bool:
    return bool(policy.cache_path) and policy.cache_mode is CacheMode.SHARED


def reads(model: Object[ModelSpec], policy: Policy) -> Iterator[Read]:
    """Name the pods that fetch the weights, and the claim of the cache, if the status says that they are in it."""
    yield from downloader_pods(model, policy)
    if stored_condition(model.before, TYPE).get("status") == Truth.TRUE:
        yield CACHE


def has_cache(seen: Seen, since: str) -> bool:
    """Return whether the shared cache existed at that time and still does: a newer claim is empty."""
    claim = seen.one(CACHE)
    # A claim that is being deleted stays while a pod names it, and the pod of a complete Job does.
    if not _is_shared(seen.policy) or claim is None or claim.meta.deleting:
        return False
    # Compared as text: all times of the API have one format, in UTC.
    return not since or (claim.meta.creation_timestamp or "") <= since


def presence(model: Object[ModelSpec], seen: Seen) -> Presence:
    """Return what is known of the weights, from existing pods or else from the stored status."""
    downloaders = downloader_pods(model, seen.policy)
    if not downloaders:
        return Presence(condition(TYPE, Truth.UNKNOWN, Reason.NOT_REPORTED, _why_not_reported(model.spec)))
    found = [pair for read in downloaders for pair in seen.every(read).values()]
    reports = [report for _, report in sorted(found, key=lambda pair: pair[0])]
    if good := [report for report in reports if report.problem is None and _is_wanted(model.spec, report.sha256)]:
        return _fetched_by_pod(model, good[-1])
    if problem := next((report.problem for report in reversed(reports) if report.problem), None):
        return Presence(failing(TYPE, problem), problem)
    return stored_presence(model, seen) or Presence(
        condition(TYPE, Truth.UNKNOWN, Reason.NOT_REPORTED, "no pod has fetched the weights yet")
    )


def _why_not_reported(spec: ModelSpec) -> str:
    if spec.hardware.accelerator is Accelerator.METAL:
        return "the weights are on a Mac outside the cluster"
    return "the weights are on a claim; whether they are complete shows when a pod serves them"


def _fetched_by_pod(model: Object[ModelSpec], report: fetch_report.Report) -> Presence:
    before = str(model.before.get("sha256", "")) if is_same_source(model) else ""
    message = "a pod has fetched and verified the weights"
    if report.kept:
        message = f"the weights are served from the cache, because nothing newer could be fetched: {report.kept}"
    return Presence(
        condition=condition(TYPE, True, Reason.MODEL_TRANSFER_SUCCEEDED, message),
        sha256=report.sha256,
        size=size_text(report.bytes),
        etag=report.etag,
        bytes=report.bytes,
        fetched_anew=bool(before) and before != report.sha256,
    )


def stored_presence(model: Object[ModelSpec], seen: Seen) -> Presence | None:
    """Return the presence in the stored status; None: it says nothing, or no longer holds."""
    said = stated_before(model.before, TYPE)
    if said is None or not is_same_source(model) or not _still_holds(model, seen, said.status):
        return None
    return Presence(
        condition=said,
        sha256=str(model.before.get("sha256", "")),
        size=str(model.before.get("size", "")),
    )


def _still_holds(model: Object[ModelSpec], seen: Seen, truth: Truth) -> bool:
    """Return whether a stored condition still holds: True while the cache exists, False until the spec changes."""
    if truth is Truth.FALSE:
        return bool(model.before.get("observedGeneration") == model.meta.generation)
    since = str(stored_condition(model.before, TYPE).get("lastTransitionTime", ""))
    if truth is Truth.UNKNOWN or not has_cache(seen, since):
        return False
    return _is_wanted(model.spec, str(model.before.get("sha256", "")))


def _is_wanted(spec: ModelSpec, sha256: str) -> bool:
    """Return whether weights with this hash are those of the spec. Collections have no hash."""
    return not sha256 or spec.sha256.lower() in ("", sha256)


def stated_before(status: Json, kind: str) -> Condition | None:
    """Return a condition of the stored status; None: it is absent, or not one that we could have written."""
    stored = stored_condition(status, kind)
    if stored.get("status") not in set(Truth) or stored.get("reason") not in set(Reason):
        return None
    return condition(kind, Truth(stored["status"]), Reason(stored["reason"]), str(stored.get("message", "")))


def is_same_source(model: Object[ModelSpec]) -> bool:
    """Return whether the stored status is about the current source."""
    return model.before.get("cacheKey") == cache_key(model.spec.source)
