"""The plan of an InferenceHost: it has no children. While it is being deleted, it waits for its models to leave."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from modelyard.core.plan import Plan, RequeueAfter
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
    since = datetime.fromisoformat(host.meta.deletion_timestamp or seen.now.isoformat())
    left = LEAVE_SECONDS - (seen.now - since).total_seconds()
    if left <= 0 or not claims_on(seen, host.key):
        return Plan()
    return Plan(requeue_after=RequeueAfter(left, "models move to other hosts, or are given up"))
