"""The proxy in front of all services that `spec.serviceSelector` matches: an Envoy that routes by the model's name.

The gateway's image takes one URL for each provider, and there may be many services. With the proxy it has one URL for
all of them, and a service that comes or goes changes a file that Envoy reads again, and no pod of the gateway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core import names
from modelyard.core.conditions import Problem
from modelyard.core.plan import Replicas
from modelyard.core.reasons import Reason
from modelyard.core.resources import CONFIG_MAP, SERVICE
from modelyard.core.selectors import Selector
from modelyard.kinds.contract import Every
from modelyard.kinds.gateway.naming import models_labels, models_name
from modelyard.kinds.shared import pods, workloads
from modelyard.kinds.shared.door_models import backends
from modelyard.kinds.shared.envoy import Address
from modelyard.kinds.shared.envoy_door import door_bootstrap, door_files
from modelyard.kinds.shared.envoy_pod import IN_POD, envoy_pod
from modelyard.kinds.shared.service_refs import RESOURCES, offered_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.core.plan import Child
    from modelyard.core.policy import Policy
    from modelyard.core.resources import Resource
    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.gateway.api import GatewaySpec
    from modelyard.kinds.shared.door_models import DoorModel
    from modelyard.kinds.shared.envoy_door import Backend

Json = dict[str, Any]

PORT: Final = 80
_KINDS: Final = ", ".join(resource.kind for resource in RESOURCES[:-1]) + f" or {RESOURCES[-1].kind}"
_HEADLESS: Final = "None"
_USER_FIELDS: Final = ("runAsUser", "runAsGroup")


class ServicePlace(Struct, frozen=True):
    """The Service of an object that serves a model, and its address."""

    instance: str
    """The name of the object, as labels hold it."""
    address: Address


def reads(gateway: Object[GatewaySpec]) -> Iterator[Read]:
    """Name the services that the selector matches, and their addresses."""
    if gateway.spec.service_selector is None:
        return
    for resource in RESOURCES:
        yield _offered(gateway, resource)
        yield _places(gateway, resource)


def url(gateway: Object[GatewaySpec]) -> str:
    """Return the base URL of OpenAI's API at the proxy; empty: the spec has no selector."""
    if gateway.spec.service_selector is None:
        return ""
    return f"http://{names.service_host(models_name(gateway.meta.name), gateway.meta.namespace)}:{PORT}/v1"


def children(gateway: Object[GatewaySpec], seen: Seen) -> tuple[Child, ...]:
    """Return the objects of the proxy; empty: the spec has no selector."""
    if gateway.spec.service_selector is None:
        return ()
    name, own = models_name(gateway.meta.name), models_labels(gateway.meta.name)
    selector = {"app": own["app"]}
    return (
        # Before the pods, which would wait a minute for it.
        workloads.child(CONFIG_MAP, name, own, {"data": door_files(_backends(gateway, seen)).data}),
        workloads.deployment(name, own, selector, Replicas(1), pods.pod_template(own, _pod(name, seen.policy))),
        workloads.service(name, own, selector, PORT),
    )


def find_problem(gateway: Object[GatewaySpec], seen: Seen) -> Problem | None:
    """Return a problem while the selector matches no service with an address; None: it does, or there is none."""
    if gateway.spec.service_selector is None or _backends(gateway, seen):
        return None
    return Problem(
        Reason.REFERENCE_NOT_FOUND,
        f"no {_KINDS} of this namespace with an address has the labels of spec.serviceSelector",
        "label one, or correct the selector",
    )


def _offered(gateway: Object[GatewaySpec], resource: Resource) -> Every[DoorModel]:
    asked = gateway.spec.service_selector
    assert asked, "only asked for with a selector"
    return Every(resource, offered_model, gateway.meta.namespace, asked.selector)


def _places(gateway: Object[GatewaySpec], resource: Resource) -> Every[ServicePlace]:
    # By our labels, so that the watch of Services stays one of our own.
    of_kind = Selector(((names.KIND_LABEL, resource.kind.lower()), (names.MANAGED_BY, names.MANAGER)))
    return Every(SERVICE, _place, gateway.meta.namespace, of_kind)


def _backends(gateway: Object[GatewaySpec], seen: Seen) -> list[Backend]:
    found: dict[DoorModel, Address] = {}
    for resource in RESOURCES:
        places = {place.instance: place.address for place in seen.every(_places(gateway, resource)).values()}
        models = seen.every(_offered(gateway, resource)).values()
        labelled = ((model, names.short(model.service.name)) for model in models)
        found.update({model: places[label] for model, label in labelled if label in places})
    return backends(found)


def _pod(name: str, policy: Policy) -> Json:
    pod = envoy_pod(door_bootstrap(IN_POD), name)
    if policy.chooses_users:
        return pod
    kept = {field: value for field, value in pod["securityContext"].items() if field not in _USER_FIELDS}
    return {**pod, "securityContext": kept}


def _place(service: Stored) -> ServicePlace | None:
    """Return where the Service of an object is; None: it has no address, or leads to a part of the object only."""
    spec, ip = service.spec, str(service.spec.get("clusterIP", ""))
    if not ip or ip == _HEADLESS or service.meta.label(names.COMPONENT_LABEL):
        return None
    return ServicePlace(service.meta.label(names.INSTANCE_LABEL), Address(ip, int(spec["ports"][0]["port"])))
