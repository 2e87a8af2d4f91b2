"""The children of a Gateway: ServiceAccount, Deployment, Service, and perhaps an Ingress, a route, an autoscaler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from modelyard.core.plan import Child, Plan
from modelyard.core.resources import (
    API_GATEWAY,
    AUTOSCALER,
    CONFIG_MAP,
    DEPLOYMENT,
    INGRESS,
    SERVICE,
    SERVICE_ACCOUNT,
)
from modelyard.kinds.contract import Owned
from modelyard.kinds.gateway import config, pod, selected
from modelyard.kinds.gateway.env import ROUTING_FILE
from modelyard.kinds.gateway.ingress import ingress
from modelyard.kinds.gateway.naming import (
    HTTPS_PORT,
    account_name,
    autoscaler_name,
    child_labels,
    routing_name,
    service_port,
)
from modelyard.kinds.gateway.routes import routes
from modelyard.kinds.shared import autoscale, labels, secrets, workloads
from modelyard.kinds.shared.http_route import HTTP_ROUTE
from modelyard.kinds.shared.pods import without_empty

if TYPE_CHECKING:
    from modelyard.core.plan import RequeueAfter
    from modelyard.core.resources import Ref
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.gateway.api import GatewaySpec
    from modelyard.kinds.gateway.decide import GatewayDecision

Json = dict[str, Any]

CHILDREN = (SERVICE_ACCOUNT, CONFIG_MAP, DEPLOYMENT, SERVICE, INGRESS, API_GATEWAY, HTTP_ROUTE, AUTOSCALER)


def plan(gateway: Object[GatewaySpec], seen: Seen, decision: GatewayDecision) -> Plan:
    """Return the plan of one Gateway; blocked while something that it names is missing or makes no sense."""
    if decision.blocked:
        later = secrets.retry_missing(gateway, seen.now) if any(config.sources(gateway.spec)) else None
        return Plan(blocked=decision.blocked, requeue_after=later)
    wanted = _children(gateway, seen, decision)
    return Plan(apply=wanted, delete=_obsolete(wanted, seen), requeue_after=_requeue_after(gateway, seen))


def _children(gateway: Object[GatewaySpec], seen: Seen, decision: GatewayDecision) -> tuple[Child, ...]:
    spec, name = gateway.spec, gateway.meta.name
    return (
        # Before the pods, whose creation is refused without it.
        *_account(spec, name),
        *_routing_map(spec, name),
        *selected.children(gateway, seen),
        _deployment(gateway, seen, decision),
        service(spec, name),
        *autoscale.autoscaler(autoscaler_name(name), child_labels(name), spec.hpa.wanted, target=name),
        *ingress(spec, name),
        *routes(spec, name, seen),
    )


def _obsolete(wanted: tuple[Child, ...], seen: Seen) -> tuple[Ref, ...]:
    """Return what an earlier spec has made and this one does not want. Objects of others are never among it."""
    kept = {(child.resource, child.name) for child in wanted}
    owned = (found for resource in CHILDREN for found in seen.all(Owned(resource)))
    return tuple(found.ref for found in owned if (found.resource, found.meta.name) not in kept)


def _requeue_after(gateway: Object[GatewaySpec], seen: Seen) -> RequeueAfter | None:
    rotation = secrets.ROTATION if any(config.sources(gateway.spec)) else None
    return autoscale.requeue_after(gateway.before, seen) or rotation


def _account(spec: GatewaySpec, name: str) -> tuple[Child, ...]:
    if not spec.service_account.create:
        return ()
    body = {"automountServiceAccountToken": False}
    child = workloads.child(SERVICE_ACCOUNT, account_name(spec, name), child_labels(name), body)
    return (replace(child, if_taken="set spec.serviceAccount.create to false to use it as it is"),)


def _routing_map(spec: GatewaySpec, name: str) -> tuple[Child, ...]:
    if not spec.routing.enabled or not spec.routing.config:
        return ()
    body = {"data": {ROUTING_FILE: spec.routing.config}}
    return (workloads.child(CONFIG_MAP, routing_name(name), child_labels(name), body),)


def _deployment(gateway: Object[GatewaySpec], seen: Seen, decision: GatewayDecision) -> Child:
    spec, name = gateway.spec, gateway.meta.name
    replicas = autoscale.replicas(spec.replicas, spec.hpa.wanted, seen)
    template = pod.template(gateway, seen, decision)
    return workloads.deployment(name, child_labels(name), labels.selector(name), replicas, template)


def service(spec: GatewaySpec, name: str) -> Child:
    """Return the Service. All of its ports lead to ports of the container by name."""
    child = workloads.service(name, child_labels(name), labels.selector(name), service_port(spec), spec.service.type)
    metrics = spec.telemetry.metrics.port if spec.telemetry.enabled and spec.telemetry.metrics.enabled else 0
    further = [_port("metrics", metrics, "metrics")] if metrics else []
    if spec.server.tls.enabled and HTTPS_PORT not in (service_port(spec), metrics):
        further.append(_port("https", HTTPS_PORT, "http"))
    child.body["spec"]["ports"].extend(further)
    child.body["metadata"].update(without_empty({"annotations": dict(spec.service.annotations)}))
    return child


def _port(name: str, number: int, target: str) -> Json:
    return {"name": name, "port": number, "protocol": "TCP", "targetPort": target}
