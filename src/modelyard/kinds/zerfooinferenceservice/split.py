"""The condition TrafficSplit, and the weight that is in force: what the routers say, not what was written for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.core.conditions import Condition, Problem, Truth, condition, failing, stored_condition
from modelyard.core.reasons import Reason
from modelyard.core.resources import POD
from modelyard.kinds.contract import Owned
from modelyard.kinds.shared import http_route, pod_problems
from modelyard.kinds.shared.envoy_pod import PORT
from modelyard.kinds.shared.http_route import HTTP_ROUTE, ROUTE
from modelyard.kinds.shared.traffic import ROUTER
from modelyard.kinds.zerfooinferenceservice import naming
from modelyard.kinds.zerfooinferenceservice.naming import CANARY
from modelyard.kinds.zerfooinferenceservice.observed import leads_to_routers, pods_of
from modelyard.kinds.zerfooinferenceservice.rollout import PASSED, ROLLED_BACK

if TYPE_CHECKING:
    from modelyard.core.plan import Outcome
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.zerfooinferenceservice.api import ZerfooInferenceServiceSpec
    from modelyard.kinds.zerfooinferenceservice.decide import Decision

Json = dict[str, Any]

_TYPE = "TrafficSplit"


def effective_weight(service: Object[ZerfooInferenceServiceSpec], seen: Seen, decision: Decision) -> int:
    """Return the share of requests that the canary gets, in per cent, as the routers report it.

    Until they answer after a restart of the operator, it is what the status said before.
    """
    if not leads_to_routers(service, seen):
        return 0
    reported = decision.traffic.routers.share(CANARY)
    return int(canary_before(service).get("effectiveWeight", 0)) if reported is None else reported


def split_condition(
    service: Object[ZerfooInferenceServiceSpec], seen: Seen, outcome: Outcome, decision: Decision
) -> tuple[Condition, ...]:
    """Return the condition TrafficSplit; empty: there is no canary, none was promoted, and there is no route."""
    split = _canary_split(service, seen, outcome, decision) if decision.canary else _leaving(service, decision)
    if split and split.status is not Truth.TRUE:
        return (split,)
    found = _route_trouble(service, seen, outcome) or split or _accepted(service)
    return (found,) if found else ()


def _canary_split(
    service: Object[ZerfooInferenceServiceSpec], seen: Seen, outcome: Outcome, decision: Decision
) -> Condition:
    """Return the condition as far as the routers are concerned."""
    rollout, weights = decision.rollout, decision.traffic.weights
    if rollout.verdict == ROLLED_BACK:
        remedy = "correct the model or the limits; to try the same again, remove spec.canary and add it again"
        return failing(_TYPE, Problem(Reason.ROLLED_BACK, f"the canary gets no requests: {rollout.message}", remedy))
    if rollout.weight != decision.weight:
        return _held_back(service, seen)
    if refused := outcome.refused.get(ROUTER):
        return failing(_TYPE, refused)
    routers = decision.traffic.routers
    is_as_before = not routers.heard and _was_loaded(service)
    if not leads_to_routers(service, seen) or not (is_as_before or routers.have_loaded(weights)):
        return _waiting(service, seen, decision)
    said = f"the routers give the canary {decision.weight} % of the requests"
    if rollout.verdict == PASSED:
        said += "; all steps have passed: to promote it, set spec.modelRef to its model and remove spec.canary"
    return condition(_TYPE, True, Reason.WEIGHTS_LOADED, said)


def _accepted(service: Object[ZerfooInferenceServiceSpec]) -> Condition | None:
    """Return the condition of a service that has only a route; None: it has none either."""
    said = "the Gateways lead to the service"
    return condition(_TYPE, True, Reason.ROUTE_ACCEPTED, said) if service.spec.route else None


def _route_trouble(service: Object[ZerfooInferenceServiceSpec], seen: Seen, outcome: Outcome) -> Condition | None:
    """Return the condition of a route that is not followed; None: it is, or none is wanted."""
    if service.spec.route is None:
        return None
    if not seen.serves(HTTP_ROUTE):
        problem = Problem(
            Reason.GATEWAY_API_NOT_INSTALLED,
            f"spec.route has no effect, because the cluster does not serve HTTPRoutes of {HTTP_ROUTE.api_version}",
            "install the definitions of Gateway API 1.0 or later, or remove spec.route; inside the cluster requests "
            "are answered",
        )
        return failing(_TYPE, problem)
    found = seen.one(Owned(HTTP_ROUTE))
    if refused := outcome.refused.get(ROUTE) or (http_route.find_problem(found) if found else None):
        return failing(_TYPE, refused)
    if found is None or not http_route.is_accepted(found):
        silent = " and ".join(http_route.silent_gateways(found)) if found else ""
        said = "the Gateways of spec.route have yet to accept the HTTPRoute"
        said += f"; {silent} says nothing of it: see that it exists, or correct spec.route.parentRefs" if silent else ""
        return condition(_TYPE, False, Reason.WAITING_FOR_GATEWAY, said)
    return None


def _leaving(service: Object[ZerfooInferenceServiceSpec], decision: Decision) -> Condition | None:
    """Return the condition of a canary that goes, or was promoted; None: there is none."""
    canary = service.spec.canary
    if decision.rollout.leaving_since or decision.rollout.weight:
        said = "the canary is being removed: it goes when the primary is ready and no answer is under way"
        return condition(_TYPE, False, Reason.STOPPING, said)
    if canary is None:
        return None
    said = f"{canary.model_ref} was promoted; set spec.modelRef to it and remove spec.canary"
    return condition(_TYPE, True, Reason.PROMOTED, said)


def _held_back(service: Object[ZerfooInferenceServiceSpec], seen: Seen) -> Condition:
    """Return the condition of a canary that is not ready for its weight."""
    pods = pods_of(seen, CANARY)
    if not _had_weight(service):
        return condition(_TYPE, False, Reason.WAITING_FOR_PODS, "the canary gets its weight when its pods are ready")
    state = f"{pods.ready} of {pods.wanted} pods of the canary are ready" if pods.wanted else "the canary has no pods"
    problem = Problem(
        Reason.CANARY_DEGRADED,
        f"the primary gets all requests, because {state}",
        "see the condition CanaryReady; the canary gets its weight again when it has recovered",
    )
    return failing(_TYPE, problem)


def _waiting(service: Object[ZerfooInferenceServiceSpec], seen: Seen, decision: Decision) -> Condition:
    """Return the condition while routers start, or load new weights."""
    routers = decision.traffic.routers
    pods = seen.all(Owned(POD, ROUTER))
    if not routers.rollout.complete and (problem := pod_problems.first_problem(pods) or routers.rollout.problem):
        return failing(_TYPE, Problem(problem.reason, f"the routers do not start: {problem.message}", problem.remedy))
    if not routers.rollout.complete:
        said = f"the routers start: {routers.rollout.count}" if routers.rollout.wanted else "the routers are created"
        return condition(_TYPE, False, Reason.WAITING_FOR_ROUTERS, said)
    said = (
        "the routers have yet to load the weights; if they never do, see that no NetworkPolicy keeps the operator from "
        f"port {PORT} of the Service {naming.track_name(service.meta.name, ROUTER)}"
    )
    return condition(_TYPE, False, Reason.WAITING_FOR_ROUTERS, said)


def _had_weight(service: Object[ZerfooInferenceServiceSpec]) -> bool:
    """Return whether the canary had its weight before it was lost. The status remembers it by its own reason."""
    before = service.memory.rollout
    said = stored_condition(service.before, _TYPE).get("reason")
    return bool(before and before.weight) or said == Reason.CANARY_DEGRADED


def _was_loaded(service: Object[ZerfooInferenceServiceSpec]) -> bool:
    """Return whether the status says, of this generation, that the weights are in force.

    It stands until the routers answer an operator that has just started. Otherwise every restart would write twice.
    """
    said = stored_condition(service.before, _TYPE)
    is_current = said.get("observedGeneration") == service.meta.generation
    return is_current and said.get("reason") == Reason.WEIGHTS_LOADED


def canary_before(service: Object[ZerfooInferenceServiceSpec]) -> Json:
    """Return what the status of a service said of its canary; empty: nothing."""
    told = (one for one in service.before.get("tracks") or () if isinstance(one, dict) and one.get("name") == CANARY)
    return next(told, {})
