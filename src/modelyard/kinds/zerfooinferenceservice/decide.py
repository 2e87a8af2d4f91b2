"""The decision of a ZerfooInferenceService, for plan and status: its servers, the weight of its canary, and its steps.

A canary gets weight when its pods are ready (`rollout`). The Service leads to the routers when all of them have loaded
the weights, and stays there while one is ready. How a canary goes is in `removal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.kinds.shared import traffic
from modelyard.kinds.zerfooinferenceservice import naming
from modelyard.kinds.zerfooinferenceservice.api import Rollout
from modelyard.kinds.zerfooinferenceservice.naming import CANARY, PRIMARY
from modelyard.kinds.zerfooinferenceservice.observed import (
    Traffic,
    is_up_to_date,
    leads_to_routers,
    may_lead_to_routers,
    pods_of,
    track_addresses,
    weights_of,
)
from modelyard.kinds.zerfooinferenceservice.removal import remove_canary
from modelyard.kinds.zerfooinferenceservice.rollout import Facts, advance, is_promoted, wanted_weight
from modelyard.kinds.zerfooinferenceservice.server import Served, Server, resolve_server

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.shared.traffic import Routers
    from modelyard.kinds.zerfooinferenceservice.api import Canary, ZerfooInferenceServiceSpec


class Memory(Struct, frozen=True):
    """What must survive a crash: fields of the status."""

    rollout: Rollout | None = None


class Decision(Struct, frozen=True):
    """Which servers there should be, and how requests are split between them."""

    memory: Memory
    primary: Server
    canary: Server | None
    """None: no canary is wanted (any more)."""
    traffic: Traffic
    weight: int = 0
    """The share of the canary as the spec wants it, in per cent."""

    @property
    def rollout(self) -> Rollout:
        """What is remembered of the canary."""
        return self.memory.rollout or Rollout()


def primary_model(service: Object[ZerfooInferenceServiceSpec]) -> Served:
    """Return the model of the primary: that of the canary, if it was promoted."""
    canary = service.spec.canary
    if canary and is_promoted(canary, service.memory.rollout):
        return Served(PRIMARY, canary.model_ref, "spec.canary.modelRef")
    return Served(PRIMARY, service.spec.model_ref, "spec.modelRef")


def canary_model(service: Object[ZerfooInferenceServiceSpec]) -> Served | None:
    """Return the model of the canary; None: no canary is wanted (any more)."""
    canary = service.spec.canary
    if canary is None or is_promoted(canary, service.memory.rollout):
        return None
    return Served(CANARY, canary.model_ref, "spec.canary.modelRef")


def decide(service: Object[ZerfooInferenceServiceSpec], seen: Seen) -> Decision:
    """Return the decision of one service."""
    primary = resolve_server(service, primary_model(service), seen)
    routers = traffic.routers(naming.router_place(service.meta), seen)
    canary, wanted = service.spec.canary, canary_model(service)
    if canary is None or wanted is None:
        remembered, leaving = remove_canary(service, seen, primary, routers)
        return Decision(Memory(remembered), primary, None, leaving)
    server = resolve_server(service, wanted, seen)
    rollout = _advanced(service, canary, server, seen, routers)
    return Decision(
        memory=Memory(rollout),
        primary=primary,
        canary=server,
        traffic=_splitting(service, seen, routers, rollout.weight),
        weight=wanted_weight(canary, rollout),
    )


def _advanced(
    service: Object[ZerfooInferenceServiceSpec], canary: Canary, server: Server, seen: Seen, routers: Routers
) -> Rollout:
    pods, before = pods_of(seen, CANARY), service.memory.rollout or Rollout()
    in_force = routers.have_loaded(weights_of(before.weight)) and leads_to_routers(service, seen)
    complete = pods.wanted > 0 and is_up_to_date(service, server, seen)
    facts = Facts(seen.now, complete, pods.ready > 0, in_force, routers.counted(CANARY))
    return advance(canary, service.memory.rollout, facts)


def _splitting(service: Object[ZerfooInferenceServiceSpec], seen: Seen, routers: Routers, weight: int) -> Traffic:
    """Return the traffic while a canary is wanted."""
    tracks = track_addresses(service, seen)
    through = tracks is not None and may_lead_to_routers(service, seen, routers, weight)
    return Traffic(routers, weight, tracks, through_routers=through)
