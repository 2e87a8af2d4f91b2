"""The objects of a Beacon, and what its host is asked to do."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from modelyard.core.plan import Plan, RequeueAfter
from modelyard.core.resources import CONFIG_MAP
from modelyard.kinds.shared import labels, workloads
from tests.toy.api import FLAG, RESOURCE, Douse

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from tests.toy.api import BeaconSpec
    from tests.toy.decide import Decision

PATIENCE_SECONDS: Final = 5.0
"""A host that is gone for good must not keep its Beacons for ever."""


def plan(beacon: Object[BeaconSpec], seen: Seen, decision: Decision) -> Plan:
    """Return the children, and the call that lights the lamp until it is lit."""
    common, name = labels.common(RESOURCE, beacon.meta.name), beacon.meta.name
    card = workloads.child(CONFIG_MAP, name, common, {"data": {"colour": beacon.spec.colour}})
    flag = replace(workloads.child(FLAG, name, common, {"spec": {"colour": beacon.spec.colour}}), group="flag")
    return Plan(
        apply=(flag, card) if seen.serves(FLAG) else (card,),
        calls=() if decision.memory.lit else (decision.light,),
    )


def finalize(beacon: Object[BeaconSpec], seen: Seen, _decision: Decision) -> Plan:
    """Return the call that puts the lamp out, until it is out. Children need none: garbage collection takes them."""
    douse = Douse(beacon.spec.host, beacon.meta.uid)
    result = seen.result(douse)
    since = datetime.fromisoformat(beacon.meta.deletion_timestamp or seen.now.isoformat())
    left = PATIENCE_SECONDS - (seen.now - since).total_seconds()
    if left <= 0 or (result and result.ok):
        return Plan()
    return Plan(calls=(douse,), requeue_after=RequeueAfter(left, "the host has the lamp put out, or is given up"))
