"""How a canary goes that is not wanted any more, or was promoted, without losing a request.

    primary up to date ──> weight 0 ──in force──> Service to the primary ──nothing in flight──> canary and routers go

Pure, called by `decide`. Each arrow waits for what is seen, so that an operator that is killed goes on where it was.
Ten minutes after the weight is gone, what is still in flight is given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from modelyard.core.resources import CONFIG_MAP, DEPLOYMENT, SERVICE
from modelyard.core.times import seconds_since, timestamp
from modelyard.kinds.contract import Owned
from modelyard.kinds.shared import http_route
from modelyard.kinds.shared.envoy_pod import GRACE_SECONDS
from modelyard.kinds.shared.http_route import HTTP_ROUTE
from modelyard.kinds.shared.traffic import ROUTER
from modelyard.kinds.zerfooinferenceservice.api import Rollout
from modelyard.kinds.zerfooinferenceservice.naming import CANARY
from modelyard.kinds.zerfooinferenceservice.observed import (
    Traffic,
    is_up_to_date,
    leads_to_routers,
    may_lead_to_routers,
    track_addresses,
    weights_of,
)

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.shared.traffic import Routers
    from modelyard.kinds.zerfooinferenceservice.api import ZerfooInferenceServiceSpec
    from modelyard.kinds.zerfooinferenceservice.server import Server

DRAIN_SECONDS: Final = float(GRACE_SECONDS)
"""How long a canary that is removed is kept for answers that are under way."""
REPORT_SECONDS: Final = 10.0
"""How old a report of routers may be, and more: by then one has come that is younger than the decision to remove."""
ROUTE_SECONDS: Final = 60.0
"""How long it is kept for answers that Gateways may have under way."""


def remove_canary(
    service: Object[ZerfooInferenceServiceSpec], seen: Seen, primary: Server, routers: Routers
) -> tuple[Rollout | None, Traffic]:
    """Return what is remembered, and where requests go, while no canary is wanted."""
    before = service.memory.rollout or Rollout()
    # What was promoted stays so while spec.canary is there, or it would begin again.
    kept = Rollout(canary=before.canary, step=before.step, verdict=before.verdict) if service.spec.canary else None
    if not _is_left(seen):
        return kept, Traffic()
    weight = 0 if is_up_to_date(service, primary, seen) else before.weight
    since = (before.leaving_since or timestamp(seen.now)) if weight == 0 else ""
    # Routers that do not answer, and answers without end, must not keep a canary for ever.
    is_overdue = bool(since) and seconds_since(since, seen.now) > DRAIN_SECONDS
    has_no_share = weight == 0 and (is_overdue or not routers.ready or routers.have_loaded(weights_of(0)))
    leads = leads_to_routers(service, seen)
    if has_no_share and not leads and (is_overdue or _is_done(seen, routers, since)):
        return kept, Traffic(routers, removes_canary=True)
    # Routers that are gone already must not be created again, only to go.
    tracks = track_addresses(service, seen) if seen.one(Owned(DEPLOYMENT, ROUTER)) else None
    through = tracks is not None and not has_no_share and may_lead_to_routers(service, seen, routers, weight)
    return (
        replace(kept or Rollout(), weight=weight, leaving_since=since),
        Traffic(routers, weight, tracks, through_routers=through),
    )


def _is_left(seen: Seen) -> bool:
    """Return whether anything of a canary or of routers is still there. A removal may have been cut short anywhere."""
    canary = (seen.one(Owned(resource, CANARY)) for resource in (DEPLOYMENT, SERVICE))
    routers = (seen.one(Owned(resource, ROUTER)) for resource in (DEPLOYMENT, SERVICE, CONFIG_MAP))
    return any((*canary, *routers))


def _is_done(seen: Seen, routers: Routers, since: str) -> bool:
    """Return whether nothing is in flight on the canary. Of what Gateways have in flight nothing is known."""
    route, elapsed = seen.one(Owned(HTTP_ROUTE)), seconds_since(since, seen.now)
    if route and not (http_route.is_accepted(route) and elapsed > ROUTE_SECONDS):
        return False
    return elapsed > REPORT_SECONDS and routers.are_done_with(CANARY)
