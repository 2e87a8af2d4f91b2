"""The traffic of a Service, split between tracks by routers: Envoys in front of the Services of the tracks.

Pure, for any kind whose pods come in tracks. It builds the children of the routers and reads what they report; which
weights there are, and when a Service leads to the routers, is decided by the kind.

| child | for |
|---|---|
| ConfigMap | the weights, which the routers read again without a restart |
| Deployment | two routers, so that one can be lost |
| Service | the operator, which asks what is in force. Clients use the Service of the object |

The counterpart in Kubernetes is a Gateway with an HTTPRoute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from modelyard.core.checks.router_report import RouterReport
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.plan import Child, Replicas
from modelyard.core.resources import CONFIG_MAP, DEPLOYMENT, POD, SERVICE
from modelyard.kinds.contract import Asked, Owned
from modelyard.kinds.shared import pods, scheduling, workloads
from modelyard.kinds.shared.envoy import Address
from modelyard.kinds.shared.envoy_pod import IN_POD, PORT, envoy_pod
from modelyard.kinds.shared.envoy_router import router_bootstrap, router_files
from modelyard.kinds.shared.envoy_stats import Figures
from modelyard.kinds.shared.workloads import Rollout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from modelyard.core.policy import Policy
    from modelyard.core.resources import Ref
    from modelyard.kinds.contract import Read, Seen

ROUTER: Final = "router"
"""The component of the children and pods of routers."""
ROUTERS: Final = 2

_HEADLESS: Final = "None"


class RouterPlace(Struct, frozen=True):
    """Where the routers of one object are, and between which tracks they choose."""

    namespace: str
    name: str
    """The name of their Deployment, Service and ConfigMap."""
    tracks: tuple[str, ...]


class RouterState(Struct, frozen=True):
    """What one router says of itself."""

    version: str
    """Of the configuration that is in force."""
    weights: dict[str, int]
    figures: dict[str, Figures] = {}
    """What it has counted since it started, by track."""


class Routers(Struct, frozen=True):
    """The routers of one object, as they were last seen. The defaults are those of an object without any."""

    rollout: Rollout = Rollout()
    ready: frozenset[str] = frozenset()
    """The pods that are ready."""
    leaving: bool = False
    """Whether a pod is being deleted. It may still pass answers on."""
    heard: bool = False
    """Whether it is known if they answer. It is not right after the start of the operator."""
    states: dict[str, RouterState] = {}
    """What the pods that are ready reported last."""

    def have_loaded(self, weights: Mapping[str, int]) -> bool:
        """Return whether these weights are in force in every router, of which there must be one."""
        version = router_files(weights).version
        reported = [self.states.get(pod) for pod in self.ready]
        return bool(reported) and all(state is not None and state.version == version for state in reported)

    def share(self, track: str) -> int | None:
        """Return the share of requests that a track gets, in per cent; None: no router has reported."""
        shares = [100 * state.weights.get(track, 0) / sum(state.weights.values()) for state in self.states.values()]
        return round(sum(shares) / len(shares)) if shares else None

    def are_done_with(self, track: str) -> bool:
        """Return whether no request for a track is in flight. While a router has not reported, that is not known."""
        if self.leaving or self.ready - self.states.keys():
            return False
        return not any(state.figures.get(track, Figures()).active for state in self.states.values())

    def counted(self, track: str) -> dict[str, Figures]:
        """Return what each router has counted for a track, by the name of its pod."""
        return {pod: state.figures.get(track, Figures()) for pod, state in self.states.items()}


def reads(place: RouterPlace, seen: Seen) -> Iterator[Read]:
    """Name the children and pods of routers, and what they report."""
    for resource in (DEPLOYMENT, SERVICE, CONFIG_MAP, POD):
        yield Owned(resource, ROUTER)
    if question := _report(place, seen):
        yield question


def routers(place: RouterPlace, seen: Seen) -> Routers:
    """Return the routers of one object."""
    own = seen.all(Owned(POD, ROUTER))
    ready = frozenset(pod.meta.name for pod in own if not pod.meta.deleting and scheduling.placement_of(pod).ready)
    question = _report(place, seen)
    answer = seen.answer(question) if question else None
    said = msgspec.convert(answer.value, dict[str, RouterState]) if answer and answer.ok else {}
    return Routers(
        rollout=workloads.read_rollout(seen.one(Owned(DEPLOYMENT, ROUTER))),
        ready=ready,
        leaving=any(pod.meta.deleting for pod in own),
        heard=answer is not None,
        states={pod: state for pod, state in said.items() if pod in ready},
    )


def service_address(seen: Seen, name: str) -> Address | None:
    """Return the address of one of the Services of an object; None: it does not exist, or has no ClusterIP yet."""
    found = next((one for one in seen.all(Owned(SERVICE)) if one.meta.name == name), None)
    ip = str(found.spec.get("clusterIP") or "") if found else ""
    return Address(ip, int(found.spec["ports"][0]["port"])) if found and ip and ip != _HEADLESS else None


def children(
    name: str,
    labels: Mapping[str, str],
    selector: Mapping[str, str],
    tracks: Mapping[str, Address],
    weights: Mapping[str, int],
    policy: Policy,
) -> tuple[Child, ...]:
    """Return the children of routers that give each track its share of the requests."""
    pod = envoy_pod(router_bootstrap(IN_POD, tracks), name, chooses_user=policy.chooses_users)
    planned = (
        # Before the pods, which would wait a minute for it.
        workloads.child(CONFIG_MAP, name, labels, {"data": router_files(weights).data}),
        workloads.deployment(name, labels, selector, Replicas(ROUTERS), pods.pod_template(dict(labels), pod)),
        workloads.service(name, labels, selector, PORT),
    )
    return tuple(replace(child, group=ROUTER) for child in planned)


def existing(seen: Seen) -> tuple[Ref, ...]:
    """Return the children of routers that exist, the Deployment first: its pods pass on what they have, then end."""
    found = (one for resource in (DEPLOYMENT, SERVICE, CONFIG_MAP) for one in seen.all(Owned(resource, ROUTER)))
    return tuple(one.ref for one in found)


def _report(place: RouterPlace, seen: Seen) -> Asked | None:
    """Return the check of the routers; None: none is ready."""
    if not workloads.read_rollout(seen.one(Owned(DEPLOYMENT, ROUTER))).ready:
        return None
    service = seen.one(Owned(SERVICE, ROUTER))
    ip = str(service.spec.get("clusterIP", "")) if service else ""
    where = ServiceAddress(place.namespace, place.name, PORT, ip)
    return Asked(RouterReport(where, ROUTERS, place.tracks)) if ip else None
