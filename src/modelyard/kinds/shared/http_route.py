"""The HTTPRoute of an object: the way from Gateways outside of us to the Services of its tracks, by weight.

Pure. A cluster may lack Gateway API, so the resource is optional: its users work without it, and are reconciled when
its definition comes or goes.

Every field that the definition has a default for is stated. Lists of a custom resource are compared whole, and a
default that the API server adds inside of one would look like the change of another client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from modelyard.core.conditions import Problem, stored_condition
from modelyard.core.reasons import Reason
from modelyard.core.resources import Resource
from modelyard.kinds.shared import workloads
from modelyard.kinds.shared.pods import without_empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelyard.core.objects import Stored
    from modelyard.core.plan import Child

Json = dict[str, Any]

GROUP: Final = "gateway.networking.k8s.io"
HTTP_ROUTE: Final = Resource(GROUP, "v1", "HTTPRoute", "httproutes", optional=True)
ROUTE: Final = "route"
"""The group of the child: what a Gateway lacks must not hold up the pods."""

_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_HOST: Final = r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


class ParentRef(Struct, frozen=True, rename="camel"):
    """A Gateway."""

    name: Annotated[str, Meta(description="Its name.", min_length=1, max_length=253, pattern=_NAME)]
    namespace: Annotated[
        str, Meta(description="Its namespace. Left out: that of the object.", max_length=63, pattern=rf"^$|{_NAME}")
    ] = ""
    section_name: Annotated[
        str, Meta(description="One of its listeners. Left out: all of them.", max_length=253, pattern=rf"^$|{_NAME}")
    ] = ""


class RouteSpec(Struct, frozen=True, rename="camel"):
    """The Gateways that lead to a service, and the host names for which they do."""

    parent_refs: Annotated[tuple[ParentRef, ...], Meta(description="The Gateways.", min_length=1, max_length=32)]
    hostnames: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=253, pattern=_HOST)], ...],
        Meta(description="The host names of requests. Left out: all that the Gateways accept.", max_length=16),
    ] = ()


def http_route(name: str, labels: Mapping[str, str], spec: RouteSpec, backends: Mapping[str, int], port: int) -> Child:
    """Return the HTTPRoute to these Services, each with its weight."""
    body = {
        "parentRefs": [_parent(parent) for parent in spec.parent_refs],
        "hostnames": list(spec.hostnames),
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                "backendRefs": [
                    {"group": "", "kind": "Service", "name": service, "port": port, "weight": weight}
                    for service, weight in backends.items()
                ],
            }
        ],
    }
    return replace(workloads.child(HTTP_ROUTE, name, labels, {"spec": without_empty(body)}), group=ROUTE)


def is_accepted(route: Stored | None) -> bool:
    """Return whether every Gateway that has looked at a route has accepted it as it is now."""
    return route is not None and bool(_parents(route)) and find_problem(route) is None and _is_current(route)


def find_problem(route: Stored, field: str = "spec.route") -> Problem | None:
    """Return why a Gateway does not follow the route of a field; None: all do, as far as they have said."""
    for parent in _parents(route):
        for kind in ("Accepted", "ResolvedRefs"):
            said = stored_condition(parent, kind)
            if said.get("status") == "False":
                gateway = parent.get("parentRef", {}).get("name", "")
                message = f"the Gateway {gateway} does not follow the HTTPRoute: {said.get('message')}"
                remedy = f"correct {field}, or let the Gateway allow it"
                return Problem(Reason.ROUTE_NOT_ACCEPTED, message, remedy)
    return None


def _parent(parent: ParentRef) -> Json:
    body = {"kind": "Gateway", "namespace": parent.namespace, "name": parent.name, "sectionName": parent.section_name}
    return {"group": GROUP, **without_empty(body)}


def _parents(route: Stored) -> list[Json]:
    return [parent for parent in route.status.get("parents") or () if isinstance(parent, dict)]


def _is_current(route: Stored) -> bool:
    said = (stored_condition(parent, "Accepted") for parent in _parents(route))
    return all(int(one.get("observedGeneration", 0)) >= route.meta.generation for one in said)
