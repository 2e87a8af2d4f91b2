"""The proxy in front of all services that `spec.serviceSelector` matches: an Envoy that routes by the model's name.

The gateway's image takes one URL for each provider, and there may be many services. With the proxy it has one URL for
all of them, and a service that comes or goes changes a file that Envoy reads again, and no pod of the gateway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modelyard.core import names
from modelyard.core.conditions import Problem
from modelyard.core.plan import Replicas
from modelyard.core.reasons import Reason
from modelyard.core.resources import CONFIG_MAP
from modelyard.kinds.gateway.naming import models_labels, models_name
from modelyard.kinds.shared import offered_models, pods, workloads
from modelyard.kinds.shared.envoy_door import claims, door_bootstrap, door_files
from modelyard.kinds.shared.envoy_pod import IN_POD, envoy_pod
from modelyard.kinds.shared.offered_models import find_backends, is_any_answering
from modelyard.kinds.shared.service_refs import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.plan import Child
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Object, Read, Seen
    from modelyard.kinds.gateway.api import GatewaySpec
    from modelyard.kinds.shared.envoy_door import Backend

Json = dict[str, Any]

PORT: Final = 80
_KINDS: Final = ", ".join(resource.kind for resource in RESOURCES[:-1]) + f" or {RESOURCES[-1].kind}"
_NOT_FOUND: Final = Problem(
    Reason.REFERENCE_NOT_FOUND,
    f"no {_KINDS} of this namespace with an address has the labels of spec.serviceSelector",
    "label one, or correct the selector",
)
_UNREADY: Final = Problem(
    Reason.REFERENCE_NOT_READY,
    f"no {_KINDS} with the labels of spec.serviceSelector answers yet",
    "wait, or see `modelyard get`, which lists what each waits for",
)
_USER_FIELDS: Final = ("runAsUser", "runAsGroup")


def reads(gateway: Object[GatewaySpec]) -> Iterator[Read]:
    """Name the services that the selector matches, their addresses, and whether they answer."""
    if asked := gateway.spec.service_selector:
        yield from offered_models.reads(gateway.meta.namespace, asked.selector)
        yield from offered_models.reads_of_answering(gateway.meta.namespace, asked.selector)


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


def offered(gateway: Object[GatewaySpec], seen: Seen) -> int:
    """Return how many names of models the proxy lists."""
    return len(claims(_backends(gateway, seen))) if gateway.spec.service_selector else 0


def find_problem(gateway: Object[GatewaySpec], seen: Seen) -> Problem | None:
    """Return a problem while the selector matches no service with an address; None: it does, or there is none."""
    return None if gateway.spec.service_selector is None or _backends(gateway, seen) else _NOT_FOUND


def find_unready(gateway: Object[GatewaySpec], seen: Seen) -> Problem | None:
    """Return a problem while no service that the selector matches answers; None: one does, or there is no selector."""
    asked = gateway.spec.service_selector
    return None if asked is None or is_any_answering(gateway.meta.namespace, seen, asked.selector) else _UNREADY


def _backends(gateway: Object[GatewaySpec], seen: Seen) -> list[Backend]:
    asked = gateway.spec.service_selector
    assert asked, "only asked for with a selector"
    return find_backends(gateway.meta.namespace, seen, asked.selector)


def _pod(name: str, policy: Policy) -> Json:
    pod = envoy_pod(door_bootstrap(IN_POD), name)
    if policy.chooses_users:
        return pod
    kept = {field: value for field, value in pod["securityContext"].items() if field not in _USER_FIELDS}
    return {**pod, "securityContext": kept}
