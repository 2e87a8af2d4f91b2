"""The plan of an InferenceHost: it has no children. While it is being deleted, it waits for its models to leave."""

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

LEAVE_SECONDS: Final = 300.0
"""A model that cannot move must not keep a host that is to go for ever."""


def plan(_host: Object[InferenceHostSpec], _seen: Seen) -> Plan:
    """Return the plan of one host: nothing. The probe is a read, and models are the business of InferenceModels."""
    return Plan()


def finalize(host: Object[InferenceHostSpec], seen: Seen) -> Plan:
    """Return an empty plan once no InferenceModel has anything on the host, or waiting has taken too long."""
    left = LEAVE_SECONDS - (seen.now - _leaving_since(host, seen.now)).total_seconds()
    if left <= 0 or not claims_on(seen, host.key):
        return Plan()
    return Plan(requeue_after=RequeueAfter(left, "models move to other hosts, or are given up"))


def _leaving_since(host: Object[InferenceHostSpec], now: datetime) -> datetime:
    """Return since when models leave: as we have said so ourselves, because the clock of the API server may differ."""
    told = stored_condition(host.before, "Schedulable")
    if told.get("reason") != Reason.DRAINING:
        return now
    times = (host.meta.deletion_timestamp or "", str(told.get("lastTransitionTime", "")))
    return max(min(datetime.fromisoformat(one), now) for one in times if one)
