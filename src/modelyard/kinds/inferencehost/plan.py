"""The plan of an InferenceHost: it has no children, and unloads what InferenceModels have left on it.

While it is being deleted, it waits for its models to leave.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from modelyard.core.conditions import stored_condition
from modelyard.core.plan import Plan, RequeueAfter
from modelyard.core.reasons import Reason
from modelyard.kinds.inferencehost.reads import claims_on

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.inferencehost.api import InferenceHostSpec
    from modelyard.kinds.inferencehost.decide import Decision

LEAVE_SECONDS: Final = 300.0
"""A model that cannot move must not keep a host that is to go for ever."""


def plan(_host: Object[InferenceHostSpec], _seen: Seen, decision: Decision) -> Plan:
    """Return the plan of one host. The probe is a read, and other models are the business of InferenceModels."""
    return Plan(calls=decision.unloads)


def finalize(host: Object[InferenceHostSpec], seen: Seen, decision: Decision) -> Plan:
    """Return an empty plan once no InferenceModel has anything on the host, or waiting has taken too long."""
    left = LEAVE_SECONDS - (seen.now - _leaving_since(host, seen.now)).total_seconds()
    if left <= 0 or not (claims_on(seen, host.key) or decision.unloads):
        return Plan()
    later = RequeueAfter(left, "models move to other hosts, or are given up")
    return Plan(calls=decision.unloads, requeue_after=later)


def _leaving_since(host: Object[InferenceHostSpec], now: datetime) -> datetime:
    """Return since when models leave: as we have said so ourselves, because the clock of the API server may differ."""
    told = stored_condition(host.before, "Schedulable")
    if told.get("reason") != Reason.DRAINING:
        return now
    times = (host.meta.deletion_timestamp or "", str(told.get("lastTransitionTime", "")))
    return max(min(datetime.fromisoformat(one), now) for one in times if one)
