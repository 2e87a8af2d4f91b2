"""The route of the Gateway API that leads to the Service of a gateway, and the Gateway of that API it attaches to.

A cluster may lack the Gateway API; then there are none, and `find_problem` says so. Every default of these resources is
stated: they are custom resources, whose lists are compared whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from modelyard.core.conditions import Problem
from modelyard.core.reasons import Reason
from modelyard.core.resources import API_GATEWAY
from modelyard.kinds.contract import Owned
from modelyard.kinds.gateway.exposure import GATEWAY_CLASS, ParentRef
from modelyard.kinds.gateway.ingress import ISSUER
from modelyard.kinds.gateway.naming import child_labels, service_port
from modelyard.kinds.shared import http_route, workloads
from modelyard.kinds.shared.http_route import HTTP_ROUTE, ROUTE
from modelyard.kinds.shared.pods import without_empty

if TYPE_CHECKING:
    from modelyard.core.plan import Child
    from modelyard.kinds.contract import Seen
    from modelyard.kinds.gateway.api import GatewaySpec

Json = dict[str, Any]

_HTTP, _HTTPS = 80, 443


def routes(spec: GatewaySpec, name: str, seen: Seen) -> tuple[Child, ...]:
    """Return the route and what it attaches to; empty: none is wanted, or the cluster lacks the Gateway API."""
    if not is_served(spec, seen):
        return ()
    own = () if spec.gateway_api.gateway.parent_refs else (_api_gateway(spec, name),)
    return (*own, _http_route(spec, name))


def find_problem(spec: GatewaySpec, seen: Seen) -> Problem | None:
    """Return why a route that is wanted leads nowhere; None: it does, as far as is known, or none is wanted."""
    if not spec.gateway_api.enabled:
        return None
    found = seen.one(Owned(HTTP_ROUTE))
    return _find_missing(spec, seen) or (http_route.find_problem(found, "spec.gatewayAPI") if found else None)


def is_served(spec: GatewaySpec, seen: Seen) -> bool:
    """Return whether a route is wanted, and the cluster serves all that it needs."""
    return spec.gateway_api.enabled and _find_missing(spec, seen) is None


def _find_missing(spec: GatewaySpec, seen: Seen) -> Problem | None:
    needed = (HTTP_ROUTE,) if spec.gateway_api.gateway.parent_refs else (HTTP_ROUTE, API_GATEWAY)
    absent = [resource.label for resource in needed if not seen.serves(resource)]
    if not absent:
        return None
    return Problem(
        Reason.GATEWAY_API_NOT_INSTALLED,
        f"spec.gatewayAPI needs {' and '.join(absent)}, which this cluster does not serve",
        "install the definitions of Gateway API, or use spec.ingress",
    )


def has_tls(spec: GatewaySpec) -> bool:
    """Return whether clients of the route speak HTTPS."""
    return spec.gateway_api.gateway.tls.enabled


def _api_gateway(spec: GatewaySpec, name: str) -> Child:
    block = spec.gateway_api.gateway
    names = spec.gateway_api.http_route.hostnames or ("",)
    listeners = [_listener(spec, name, host, number) for number, host in enumerate(names, start=1)]
    body = {"spec": {"gatewayClassName": block.gateway_class_name or GATEWAY_CLASS, "listeners": listeners}}
    child = workloads.child(API_GATEWAY, name, child_labels(name), body)
    if has_tls(spec) and block.tls.issuer:
        child.body["metadata"]["annotations"] = {ISSUER: block.tls.issuer}
    return replace(child, group=ROUTE)


def _listener(spec: GatewaySpec, name: str, host: str, number: int) -> Json:
    """Return one listener for each host name: without its own, a name would lead nowhere."""
    tls = spec.gateway_api.gateway.tls
    kind, port = ("https", _HTTPS) if tls.enabled else ("http", _HTTP)
    certificate = {"group": "", "kind": "Secret", "name": tls.secret_name or f"{name}-tls"}
    return without_empty(
        {
            "name": kind if number == 1 else f"{kind}-{number}",
            "hostname": host,
            "port": port,
            "protocol": kind.upper(),
            "tls": {"mode": "Terminate", "certificateRefs": [certificate]} if tls.enabled else {},
            "allowedRoutes": {"namespaces": {"from": "Same"}},
        }
    )


def _http_route(spec: GatewaySpec, name: str) -> Child:
    parents = spec.gateway_api.gateway.parent_refs or (ParentRef(name),)
    backend = {"group": "", "kind": "Service", "name": name, "port": service_port(spec), "weight": 1}
    rule = {"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "backendRefs": [backend]}
    body = {
        "parentRefs": [_parent(one) for one in parents],
        "hostnames": list(spec.gateway_api.http_route.hostnames),
        "rules": [rule],
    }
    return replace(workloads.child(HTTP_ROUTE, name, child_labels(name), {"spec": without_empty(body)}), group=ROUTE)


def _parent(ref: ParentRef) -> Json:
    stated = {
        "namespace": ref.namespace,
        "name": ref.name,
        "sectionName": ref.section_name,
        "port": ref.port,
    }
    # An empty group is the core group, so it must stay.
    return {"group": ref.group, "kind": ref.kind, **without_empty(stated)}
