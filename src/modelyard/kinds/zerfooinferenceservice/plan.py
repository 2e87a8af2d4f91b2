"""The children of a ZerfooInferenceService: a Deployment and a Service for each track, the Service of clients, perhaps
an autoscaler, and while there is a canary the routers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from modelyard.core.conditions import stored_condition
from modelyard.core.diff import fingerprint
from modelyard.core.plan import Child, CreateOnly, Plan, Replicas, RequeueAfter
from modelyard.core.resources import DEPLOYMENT, POD, SERVICE
from modelyard.engines import ENGINES
from modelyard.kinds.contract import Owned
from modelyard.kinds.shared import autoscale, http_route, secrets, traffic, workloads
from modelyard.kinds.shared.autoscale import AutoscalerConfig
from modelyard.kinds.shared.http_route import HTTP_ROUTE
from modelyard.kinds.shared.scheduling import recheck_binding
from modelyard.kinds.shared.traffic import ROUTER
from modelyard.kinds.zerfooinferenceservice import naming
from modelyard.kinds.zerfooinferenceservice.api import PORT
from modelyard.kinds.zerfooinferenceservice.naming import CANARY, PRIMARY
from modelyard.kinds.zerfooinferenceservice.observed import TEMPLATE, pods_of, template, weights_of
from modelyard.kinds.zerfooinferenceservice.rollout import PROMOTED, seconds_left

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.resources import Ref
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.zerfooinferenceservice.api import ZerfooInferenceServiceSpec
    from modelyard.kinds.zerfooinferenceservice.decide import Decision
    from modelyard.kinds.zerfooinferenceservice.server import Server

PROGRESS_DEADLINE: Final = 3600
"""Seconds. Models take a while to arrive and to load, and by default a rollout counts as stuck after ten minutes."""
_PROMOTED: Final = RequeueAfter(0.0, "the primary takes over the model of the canary")
_LEAVING: Final = RequeueAfter(2.0, "a canary goes when no answer is under way")
_ADDRESSES: Final = RequeueAfter(1.0, "the Services of the tracks get addresses")
_REFUSED: Final = RequeueAfter(60.0, "the Service of a track was refused")
_BEGINS: Final = RequeueAfter(1.0, "the first step begins now that the Service leads to the routers")


def plan(service: Object[ZerfooInferenceServiceSpec], seen: Seen, decision: Decision) -> Plan:
    """Return the plan of one service; blocked while the model of its primary cannot be served, and never was.

    A primary that serves an earlier model is left as it is, and everything else goes on: a canary that loses its pods
    must give its weight back.
    """
    problem = decision.primary.problem
    if problem and seen.one(Owned(DEPLOYMENT, PRIMARY)) is None:
        return Plan(blocked=problem, requeue_after=secrets.requeue_after(service, seen.now, problem))
    primary = () if problem else track(service, seen, decision.primary, primary_replicas(service.spec, seen))
    name, scaling = service.meta.name, autoscaler_config(service.spec)
    common, target = naming.child_labels(name), naming.track_name(name, PRIMARY)
    leads_to = ROUTER if decision.traffic.through_routers else PRIMARY
    return Plan(
        apply=(
            *primary,
            *canary(service, seen, decision),
            *routers(service, seen, decision),
            # After the routers that it may lead to.
            workloads.service(naming.service_name(name), common, naming.selector(name, leads_to), PORT),
            *autoscale.autoscaler(naming.autoscaler_name(name), common, scaling, target),
            *route(service, seen, decision),
        ),
        delete=(*autoscale.obsolete(scaling, seen), *leaving(seen, decision), *obsolete_route(service, seen)),
        requeue_after=min(waits(service, seen, decision), key=lambda wait: wait.seconds, default=None),
    )


def track(
    service: Object[ZerfooInferenceServiceSpec], seen: Seen, server: Server, replicas: Replicas
) -> tuple[Child | CreateOnly, ...]:
    """Return the claims, the Deployment and the Service of a server whose pod is resolved."""
    pod, named = server.pod, naming.track_name(service.meta.name, server.served.track)
    assert pod, "without a problem the pod is resolved"
    labels = naming.track_labels(service.meta.name, server.served.track)
    selector = naming.selector(service.meta.name, server.served.track)
    wanted = template(service, server, seen)
    return (
        *pod.storage.claims,
        workloads.deployment(
            named,
            labels,
            selector,
            replicas,
            wanted,
            # There may be no spare GPU for a new pod.
            strategy="Recreate" if pod.devices.count else "RollingUpdate",
            progress_deadline=PROGRESS_DEADLINE,
            annotations={TEMPLATE: fingerprint(wanted)},
        ),
        workloads.service(named, labels, selector, PORT),
    )


def canary(
    service: Object[ZerfooInferenceServiceSpec], seen: Seen, decision: Decision
) -> tuple[Child | CreateOnly, ...]:
    """Return the children of the canary; empty: none is wanted, or its model cannot be served.

    A canary that is not wanted any more is left as it is until it is removed.
    """
    server = decision.canary
    if server is None or server.problem:
        return ()
    shared = decision.primary.pod.storage.claims if decision.primary.pod else ()
    children = track(service, seen, server, Replicas(service.spec.replicas))
    return tuple(replace(child, group=CANARY) for child in children if child not in shared)


def routers(service: Object[ZerfooInferenceServiceSpec], seen: Seen, decision: Decision) -> tuple[Child, ...]:
    """Return the children of the routers; empty: there are to be none (yet)."""
    name, split = service.meta.name, decision.traffic
    if split.tracks is None:
        return ()
    labels, selector = naming.track_labels(name, ROUTER), naming.selector(name, ROUTER)
    named = naming.track_name(name, ROUTER)
    return traffic.children(named, labels, selector, split.tracks, split.weights, seen.policy)


def route(service: Object[ZerfooInferenceServiceSpec], seen: Seen, decision: Decision) -> tuple[Child, ...]:
    """Return the HTTPRoute, after the Services that it names; empty: none is wanted, or the cluster knows none.

    It never has a single backend of weight 0, which Gateways take in different ways.
    """
    name, wanted = service.meta.name, service.spec.route
    if wanted is None or not seen.serves(HTTP_ROUTE):
        return ()
    primary, canary = (naming.track_name(name, track) for track in (PRIMARY, CANARY))
    weights = decision.traffic.weights
    splits = decision.traffic.tracks is not None and (decision.canary is not None or weights[CANARY] > 0)
    backends = {primary: weights[PRIMARY], canary: weights[CANARY]} if splits else {primary: 1}
    return (http_route.http_route(name, naming.child_labels(name), wanted, backends, PORT),)


def obsolete_route(service: Object[ZerfooInferenceServiceSpec], seen: Seen) -> tuple[Ref, ...]:
    """Return the HTTPRoute to delete because none is wanted any more."""
    return () if service.spec.route else tuple(found.ref for found in seen.all(Owned(HTTP_ROUTE)))


def leaving(seen: Seen, decision: Decision) -> tuple[Ref, ...]:
    """Return what goes with a canary that no request needs any more: its children, and the routers."""
    if not decision.traffic.removes_canary:
        return ()
    own = (one.ref for resource in (DEPLOYMENT, SERVICE) for one in seen.all(Owned(resource, CANARY)))
    return (*own, *traffic.existing(seen))


def waits(service: Object[ZerfooInferenceServiceSpec], seen: Seen, decision: Decision) -> Iterator[RequeueAfter]:
    """Yield what is to be looked at again without any change from outside."""
    canary, server = service.spec.canary, decision.canary
    if autoscaled := autoscale.requeue_after(service.before, seen):
        yield autoscaled
    problems = (one.problem for one in (decision.primary, server) if one and one.problem)
    yield from filter(None, (secrets.requeue_after(service, seen.now, problem) for problem in problems))
    pods = (pod for track in (PRIMARY, CANARY) for pod in seen.all(Owned(POD, track)))
    if binding := recheck_binding(pods, seen.now):
        yield binding
    if server and _lacks_address(service, seen, decision.primary, server):
        yield _REFUSED if stored_condition(service.before, "Applied") else _ADDRESSES
    if canary and canary.steps and _begins(seen, decision):
        yield _BEGINS
    if canary and server and (left := seconds_left(canary, decision.rollout, seen.now)) is not None:
        yield RequeueAfter(left, "a step of the canary takes its time")
    if server and decision.rollout.verdict == PROMOTED:
        yield _PROMOTED
    if decision.rollout.leaving_since:
        yield _LEAVING


def _lacks_address(service: Object[ZerfooInferenceServiceSpec], seen: Seen, *servers: Server) -> bool:
    """Return whether this plan creates the Service of a track. Its address is no event, for the write was our own."""
    names = (naming.track_name(service.meta.name, one.served.track) for one in servers if not one.problem)
    return any(traffic.service_address(seen, name) is None for name in names)


def _begins(seen: Seen, decision: Decision) -> bool:
    """Return whether this plan puts the weight of a step into force, which is no event before requests come."""
    rollout, split = decision.rollout, decision.traffic
    if rollout.since or rollout.verdict or not pods_of(seen, CANARY).complete:
        return False
    return split.through_routers and split.routers.have_loaded(weights_of(rollout.weight))


def primary_replicas(spec: ZerfooInferenceServiceSpec, seen: Seen) -> Replicas:
    """Return the replicas of the primary, within the bounds of its autoscaler."""
    scaling = autoscaler_config(spec)
    wanted = min(spec.replicas, scaling.max_replicas) if scaling else spec.replicas
    return autoscale.replicas(wanted, scaling, seen)


def autoscaler_config(spec: ZerfooInferenceServiceSpec) -> AutoscalerConfig | None:
    """Return the configuration of the autoscaler; None: none is wanted. Without a metric it goes by the use of CPU."""
    if not spec.max_replicas:
        return None
    metric = ENGINES[spec.runtime].metric
    metrics = (autoscale.pods_metric(metric, autoscale.REQUESTS_PER_POD),) if metric else ()
    return AutoscalerConfig(spec.max_replicas, spec.min_replicas, metrics)


def scales_by_cpu(spec: ZerfooInferenceServiceSpec) -> bool:
    """Return whether the autoscaler goes by the use of CPU, which has to be requested then."""
    return bool(spec.max_replicas) and not ENGINES[spec.runtime].metric
