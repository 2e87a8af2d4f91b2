"""The Service of an InferenceModel and its EndpointSlices: addresses of machines that are no pods.

The Service has no selector, so Kubernetes' own controller leaves it alone, and the slices are ours. Ports and address
families are per slice. Endpoints are sorted and hold nothing that changes by itself: a slice is written only when an
endpoint comes, goes or turns, because every write wakes every kube-proxy.
"""

from __future__ import annotations

from collections import defaultdict
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core import names
from modelyard.core.resources import ENDPOINT_SLICE, SERVICE
from modelyard.kinds.inferencehost.api import RESOURCE as HOST_RESOURCE
from modelyard.kinds.inferencemodel.api import RESOURCE, State
from modelyard.kinds.inferencemodel.hosts import Host
from modelyard.kinds.shared import labels, workloads

if TYPE_CHECKING:
    from modelyard.core.objects import Stored
    from modelyard.core.plan import Child
    from modelyard.kinds.contract import Object
    from modelyard.kinds.inferencemodel.api import InferenceModelSpec
    from modelyard.kinds.inferencemodel.decide import Decision

Json = dict[str, Any]

HEADLESS: Final = "None"
_PORT_NAME: Final = "http"
_OF_SERVICE: Final = "kubernetes.io/service-name"
_SLICE_MANAGER: Final = "endpointslice.kubernetes.io/managed-by"
_MANAGER: Final = "modelyard.dev"
_READY: Final = {"ready": True, "serving": True, "terminating": False}
_FINISHING: Final = {"ready": False, "serving": True, "terminating": True}


class Endpoint(Struct, frozen=True):
    """One host that gets requests, or finishes those that it has."""

    host: Host
    ready: bool

    @property
    def family(self) -> str:
        """IPv4 or IPv6."""
        return f"IPv{ip_address(self.host.ip).version}"


def endpoints(decision: Decision, families: frozenset[str]) -> tuple[Endpoint, ...]:
    """Return what is published, sorted by host: each address and port once, in the families that the Service has."""
    ready = [one.assignment.host for one in decision.replicas if one.state is State.READY]
    finishing = [one.host for one in decision.finishing if one.host not in ready]
    found: dict[tuple[str, int], Endpoint] = {}
    for name in (*sorted(set(ready)), *sorted(set(finishing))):
        host = decision.hosts[name]
        if host.ip and f"IPv{ip_address(host.ip).version}" in families:
            found.setdefault((host.ip, host.port), Endpoint(host, name in ready))
    return tuple(sorted(found.values(), key=lambda one: one.host.name))


def families(service: Stored | None) -> frozenset[str]:
    """Return the address families of the Service; before it exists, both."""
    stored = service.spec.get("ipFamilies") if service else None
    return frozenset(stored or ("IPv4", "IPv6"))


def service(model: Object[InferenceModelSpec]) -> Child:
    """Return the Service. It exists as long as the object, so that its name and address are stable."""
    spec = {
        "type": "ClusterIP",
        **({"clusterIP": HEADLESS} if model.spec.headless else {}),
        # Stated, although it is empty: a selector that another client adds is ours to remove only then.
        "selector": {},
        "ipFamilyPolicy": workloads.DUAL_STACK,
        "ports": [
            {"name": _PORT_NAME, "port": model.spec.port, "protocol": "TCP", "targetPort": model.spec.port},
        ],
    }
    return workloads.child(SERVICE, model.meta.name, _labels(model), {"spec": spec})


def _labels(model: Object[InferenceModelSpec]) -> dict[str, str]:
    """Return the labels of children: those of the object as well, because clients find Services by theirs."""
    return {**(model.meta.labels or {}), **labels.common(RESOURCE, model.meta.name)}


def slices(model: Object[InferenceModelSpec], published: tuple[Endpoint, ...]) -> tuple[Child, ...]:
    """Return the EndpointSlices: one for each address family and port."""
    groups: dict[tuple[str, int], list[Endpoint]] = defaultdict(list)
    for one in published:
        groups[one.family, one.host.port].append(one)
    return tuple(_slice(model, family, port, groups[family, port]) for family, port in sorted(groups))


def _slice(model: Object[InferenceModelSpec], family: str, port: int, members: list[Endpoint]) -> Child:
    name = model.meta.name
    component = f"{family.lower()}-{port}"
    own = _labels(model) | {
        names.COMPONENT_LABEL: component,
        _OF_SERVICE: name,
        _SLICE_MANAGER: _MANAGER,
    }
    body = {
        "addressType": family,
        "endpoints": [_entry(model.meta.namespace, one) for one in members],
        "ports": [{"name": _PORT_NAME, "port": port, "protocol": "TCP"}],
    }
    return workloads.child(ENDPOINT_SLICE, f"{name}-{component}", own, body)


def _entry(namespace: str, one: Endpoint) -> Json:
    return {
        "addresses": [one.host.ip],
        "conditions": _READY if one.ready else _FINISHING,
        "hostname": names.dns_label(one.host.name),
        "targetRef": {"kind": HOST_RESOURCE.kind, "namespace": namespace, "name": one.host.name},
    }


def ready_addresses(stored: tuple[Stored, ...]) -> frozenset[tuple[str, int]]:
    """Return the addresses and ports that get requests, as the stored slices say."""
    return frozenset(
        (entry["addresses"][0], part.part("ports")[0]["port"])
        for part in stored
        for entry in part.part("endpoints") or ()
        if entry.get("conditions", {}).get("ready")
    )
