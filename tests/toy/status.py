"""What is true of a Beacon now. Its seat, and whether it is lit, are its memory and come from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelyard.core.conditions import condition, failing
from modelyard.core.reasons import Reason
from modelyard.kinds.contract import Owned
from tests.toy.api import FLAG, BeaconStatus

if TYPE_CHECKING:
    from modelyard.core.conditions import Condition
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Object, Seen
    from tests.toy.api import BeaconSpec
    from tests.toy.decide import Decision


def summarise(_: Object[BeaconSpec], seen: Seen, outcome: Outcome, decision: Decision) -> BeaconStatus:
    """Return the status of one Beacon."""
    flagged = seen.one(Owned(FLAG)) is not None
    return BeaconStatus(flagged=flagged, conditions=(_ready(outcome, decision),))


def _ready(outcome: Outcome, decision: Decision) -> Condition:
    if outcome.problem:
        return failing("Ready", outcome.problem)
    if decision.memory.lit:
        return condition("Ready", True, Reason.READY, "the lamp is lit")
    result = outcome.results.get(decision.light)
    if result and not result.ok:
        return condition("Ready", False, result.reason, f"{result.message}; look at the host")
    return condition("Ready", False, Reason.WAITING_FOR_ANSWER, "the host has not answered yet")
