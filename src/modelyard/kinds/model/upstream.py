"""The condition SourceDrifted: whether the source of a Model has another version than the pods.

The operator checks the source without credentials, and nothing waits for the answer. What was learned stays in the
status while the source is the same. Later versions are compared with the one that pods have, or, where pods cannot tell
it, with the first one that was seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from modelyard.core.checks.remote_weights import RemoteWeights
from modelyard.core.conditions import Condition, Truth, condition
from modelyard.core.gguf import GgufReport
from modelyard.core.reasons import Reason
from modelyard.core.source import Hub, Local, Web, parse
from modelyard.core.times import timestamp
from modelyard.kinds.contract import Asked
from modelyard.kinds.model.api import Accelerator, Format, RefreshPolicy
from modelyard.kinds.model.weights_present import is_same_source, stated_before
from modelyard.kinds.shared import model_volumes

if TYPE_CHECKING:
    from modelyard.core.checks import Answer
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.model.api import ModelSpec
    from modelyard.kinds.model.weights_present import Presence

TYPE: Final = "SourceDrifted"

_LOCAL_SECONDS: Final = 10.0
"""How often a file of this machine is checked, which costs next to nothing."""
_RESTART: Final = "restart the pods to use it"

_REPORTED_FAILURES: Final = (Reason.UPSTREAM_REFUSED, Reason.UPSTREAM_NOT_FOUND, Reason.ADDRESS_NOT_ALLOWED)
"""Failures that are reported. Others mean that the network is down, and would be a write for each Model at once."""


class Fingerprint(Struct, frozen=True):
    """ETag and size of a version of a file; empty and 0: not known."""

    etag: str = ""
    length: int = 0

    def differs(self, other: Fingerprint) -> bool:
        """Return whether these are surely two versions. The ETag decides where both have one."""
        if self.etag and other.etag:
            return self.etag != other.etag
        return bool(self.length and other.length) and self.length != other.length

    def after(self, found: Fingerprint, *, fetched_anew: bool) -> Fingerprint:
        """Return what to compare with from now on: nothing, if `found` may be older than what pods have fetched."""
        if fetched_anew:
            return Fingerprint()
        return found if self == Fingerprint() else self


class Upstream(Struct, frozen=True):
    """What is known of the source, and the condition that says so."""

    condition: Condition
    baseline: Fingerprint = Fingerprint()
    """The version that later ones are compared with."""
    changed_at: str | None = None
    """When the answer last changed; None: there was none."""
    gguf: GgufReport | None = None


def source_check(model: Object[ModelSpec], policy: Policy) -> Asked | None:
    """Return the check of the source; None: it is not a single file, or only pods can read it."""
    url, gguf = _url(model.spec, policy), model.spec.format is Format.GGUF
    known = str(model.before.get("sourceETag", "")) if is_same_source(model) else ""
    every = _LOCAL_SECONDS if url.startswith("file:") else policy.revalidate_seconds
    return Asked(RemoteWeights(url, every, gguf, known)) if url else None


def _url(spec: ModelSpec, policy: Policy) -> str:
    source = parse(spec.source)
    if isinstance(source, Local):
        return f"file://{quote(source.path)}" if _is_seen(spec, source, policy) else ""
    if spec.source_secret_ref:
        return ""
    match source:
        case Web():
            return source.url
        case Hub():
            return model_volumes.hub_url(source)
    return ""


def _is_seen(spec: ModelSpec, source: Local, policy: Policy) -> bool:
    """Return whether the operator can check a local file: it is on the operator's own machine, and allowed."""
    on_a_node = spec.hardware.accelerator is not Accelerator.METAL
    return policy.sees_node_files and on_a_node and not model_volumes.is_forbidden(source, policy)


def compare(model: Object[ModelSpec], seen: Seen, present: Presence) -> Upstream:
    """Return what is known of the source, from the latest answer or else from the stored status."""
    asked = source_check(model, seen.policy)
    before = _stored_upstream(model)
    if asked is None:
        why = "the source is checked only if it is a single file that can be read without a Secret"
        return _with_condition(before, condition(TYPE, Truth.UNKNOWN, Reason.NOT_COMPARED, why))
    answer = seen.answer(asked)
    if answer is None or not answer.ok:
        return _without_answer(model.spec, answer, before)
    found, header = _fingerprint(answer.value), _header(answer.value)
    first = _pod_fingerprint(model.spec, present) or before.baseline.after(found, fetched_anew=present.fetched_anew)
    # A new baseline is compared with the next answer only. This one may be older than what the pods have fetched.
    moved = first != before.baseline
    said = _drifted(model.spec) if not moved and first.differs(found) else _in_sync()
    news = before.changed_at is None or moved or said.status != before.condition.status
    since = timestamp(seen.now) if news else before.changed_at
    return Upstream(said, first, since, before.gguf or header if first.differs(found) else header or before.gguf)


def _pod_fingerprint(spec: ModelSpec, present: Presence) -> Fingerprint | None:
    """Return the version that pods have; None: not known, or from the hub, whose ETags differ between pods and us."""
    known = present.etag and isinstance(parse(spec.source), Web | Local)
    return Fingerprint(present.etag, present.bytes) if known else None


def _without_answer(spec: ModelSpec, answer: Answer | None, before: Upstream) -> Upstream:
    """Return what was known before, or that the source is gone; another failure counts only if nothing was known."""
    # Of a local file every failure counts, because no network is in between.
    gone = answer and (answer.reason is Reason.UPSTREAM_NOT_FOUND or isinstance(parse(spec.source), Local))
    if answer and (gone or (before.changed_at is None and answer.reason in _REPORTED_FAILURES)):
        return _with_condition(before, condition(TYPE, Truth.UNKNOWN, answer.reason, answer.message))
    if before.changed_at is not None or before.condition.reason in _REPORTED_FAILURES:
        return before
    return _with_condition(before, _unknown())


def _unknown() -> Condition:
    # The same message before the first answer and after a failed check, or a thousand Models would be written twice.
    message = "the source has not answered the operator, so its version is unknown; pods fetch from it anyway"
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
    return condition(TYPE, False, Reason.IN_SYNC, "the source still has the same version")


def _drifted(spec: ModelSpec) -> Condition:
    remedy = "new pods fetch it"
    if isinstance(parse(spec.source), Local):
        return condition(TYPE, True, Reason.UPSTREAM_CHANGED, f"the file has changed since pods copied it; {_RESTART}")
    if spec.refresh_policy is RefreshPolicy.IF_NOT_PRESENT:
        remedy = f"set spec.refreshPolicy to OnChange and {_RESTART}"
    return condition(TYPE, True, Reason.UPSTREAM_CHANGED, f"the source has a new version; {remedy}")
