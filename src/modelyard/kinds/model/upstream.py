"""What upstream, where the weights come from, says of them: its version, its size, its GGUF header.

The operator looks without credentials, and nothing waits for it. What was learned is kept in the status for as long as
the source is the same. The version that pods have is what later ones are compared with; where pods cannot tell, it is
the first that was seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from modelyard.core.checks.remote_weights import RemoteWeights
from modelyard.core.conditions import Condition, Truth, condition
from modelyard.core.gguf import GgufReport
from modelyard.core.reasons import Reason
from modelyard.core.source import Hub, Web, parse
from modelyard.core.times import timestamp
from modelyard.kinds.contract import Asked
from modelyard.kinds.model.api import Format, RefreshPolicy
from modelyard.kinds.model.weights_present import is_same_source, stated_before
from modelyard.kinds.shared import model_volumes

if TYPE_CHECKING:
    from modelyard.core.checks import Answer
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.model.api import ModelSpec
    from modelyard.kinds.model.weights_present import Presence

TYPE: Final = "SourceDrifted"

_REPORTED_FAILURES: Final = (Reason.UPSTREAM_REFUSED, Reason.UPSTREAM_NOT_FOUND, Reason.ADDRESS_NOT_ALLOWED)
"""Failures that say something of the source. Of others nothing is said: it would be a write for each Model at once."""


class Fingerprint(Struct, frozen=True):
    """What tells one version of a file from another."""

    etag: str = ""
    length: int = 0

    def differs(self, other: Fingerprint) -> bool:
        """Whether these are surely two versions. The ETag decides where both have one."""
        if self.etag and other.etag:
            return self.etag != other.etag
        return bool(self.length and other.length) and self.length != other.length

    def after(self, found: Fingerprint, *, fetched_anew: bool) -> Fingerprint:
        """Return what to compare with from now on: nothing, if what was found may be older than what pods fetched."""
        if fetched_anew:
            return Fingerprint()
        return found if self == Fingerprint() else self


class Upstream(Struct, frozen=True):
    """What is known of upstream."""

    condition: Condition
    baseline: Fingerprint = Fingerprint()
    """The version that others are compared with."""
    changed_at: str | None = None
    """When it last told something new."""
    gguf: GgufReport | None = None


def source_check(model: Object[ModelSpec], policy: Policy) -> Asked | None:
    """Return what to ask; None when there is no single file, or when only pods may read it."""
    url, gguf = _url(model.spec), model.spec.format is Format.GGUF
    known = str(model.before.get("sourceETag", "")) if is_same_source(model) else ""
    return Asked(RemoteWeights(url, policy.revalidate_seconds, gguf, known)) if url else None


def _url(spec: ModelSpec) -> str:
    if spec.source_secret_ref:
        return ""
    match source := parse(spec.source):
        case Web():
            return source.url
        case Hub():
            return model_volumes.hub_url(source)
    return ""


def compare(model: Object[ModelSpec], seen: Seen, present: Presence) -> Upstream:
    """Return what is known, from the latest answer or from what was known before."""
    asked = source_check(model, seen.policy)
    before = _stored_upstream(model)
    if asked is None:
        why = "upstream is compared only where spec.source names one file that can be read without a Secret"
        return _with_condition(before, condition(TYPE, Truth.UNKNOWN, Reason.NOT_COMPARED, why))
    answer = seen.answer(asked)
    if answer is None or not answer.ok:
        return _without_answer(answer, before)
    found, header = _fingerprint(answer.value), _header(answer.value)
    first = _pod_fingerprint(model.spec, present) or before.baseline.after(found, fetched_anew=present.fetched_anew)
    # Pods may have fetched long after the operator looked: what they have is compared with the next look.
    moved = first != before.baseline
    said = _drifted(model.spec) if not moved and first.differs(found) else _in_sync()
    news = before.changed_at is None or moved or said.status != before.condition.status
    since = timestamp(seen.now) if news else before.changed_at
    return Upstream(said, first, since, before.gguf or header if first.differs(found) else header or before.gguf)


def _pod_fingerprint(spec: ModelSpec, present: Presence) -> Fingerprint | None:
    """Return the version that pods have, where they call it as the operator does: the hub tells them another name."""
    known = present.etag and isinstance(parse(spec.source), Web)
    return Fingerprint(present.etag, present.bytes) if known else None


def _without_answer(answer: Answer | None, before: Upstream) -> Upstream:
    """Return what was known before. Only when nothing was, the failure itself is worth saying."""
    if before.changed_at is not None or (answer is None and before.condition.reason in _REPORTED_FAILURES):
        return before
    if answer and answer.reason in _REPORTED_FAILURES:
        return _with_condition(before, condition(TYPE, Truth.UNKNOWN, answer.reason, answer.message))
    return _with_condition(before, _unknown())


def _unknown() -> Condition:
    # The same words before the first answer and without one: of a thousand Models, none is written twice for this.
    message = "upstream has not answered the operator, so its version is not known; pods fetch from it all the same"
    return condition(TYPE, Truth.UNKNOWN, Reason.UPSTREAM_UNREACHABLE, message)


def _with_condition(before: Upstream, stated: Condition) -> Upstream:
    return msgspec.structs.replace(before, condition=stated)


def _stored_upstream(model: Object[ModelSpec]) -> Upstream:
    status = model.before
    if not is_same_source(model):
        return Upstream(_unknown())
    return Upstream(
        condition=stated_before(status, TYPE) or _unknown(),
        baseline=Fingerprint(str(status.get("sourceETag", "")), int(status.get("sourceContentLength", 0))),
        changed_at=status.get("lastRevalidated"),
        gguf=_header(status),
    )


def _fingerprint(value: dict[str, Any]) -> Fingerprint:
    return Fingerprint(str(value.get("etag") or ""), int(value.get("contentLength") or 0))


def _header(value: dict[str, Any]) -> GgufReport | None:
    try:
        return msgspec.convert(value.get("gguf"), GgufReport | None)
    except msgspec.ValidationError:
        return None


def _in_sync() -> Condition:
    return condition(TYPE, False, Reason.IN_SYNC, "upstream has the version that was seen first")


def _drifted(spec: ModelSpec) -> Condition:
    remedy = "pods that start from now on fetch it"
    if spec.refresh_policy is RefreshPolicy.IF_NOT_PRESENT:
        remedy = "set spec.refreshPolicy to OnChange and restart the pods to use it"
    return condition(TYPE, True, Reason.UPSTREAM_CHANGED, f"upstream has another version than before; {remedy}")
