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
    """Return whether every Gateway that a route names has accepted it as it is now."""
    return route is not None and not silent_gateways(route) and find_problem(route) is None and _is_current(route)


def silent_gateways(route: Stored) -> list[str]:
    """Return the names of the Gateways of a route that have said nothing of it; perhaps they do not exist."""
    heard = {_place(route, parent.get("parentRef") or {}) for parent in _parents(route)}
    asked = (parent for parent in route.spec.get("parentRefs") or () if _place(route, parent) not in heard)
    return list(dict.fromkeys(str(parent.get("name")) for parent in asked))


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


def _place(route: Stored, parent: Json) -> tuple[str, str, str]:
    """Return which listener of which Gateway a reference means. Gateways may leave out what is as in the route."""
    namespace = parent.get("namespace") or route.meta.namespace
    return str(namespace), str(parent.get("name")), str(parent.get("sectionName") or "")


def _is_current(route: Stored) -> bool:
    """Return whether all that Gateways say of a route is that they accept it as it is now."""
    said = [stored_condition(parent, "Accepted") for parent in _parents(route)]
    is_old = any(int(one.get("observedGeneration", 0)) < route.meta.generation for one in said)
    return not is_old and all(one.get("status") == "True" for one in said)
