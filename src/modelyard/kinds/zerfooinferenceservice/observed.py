"""What is seen of a ZerfooInferenceService: its pods, where its Service leads, whether a track is up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core.diff import fingerprint
from modelyard.core.names import COMPONENT_LABEL
from modelyard.core.resources import DEPLOYMENT, SERVICE
from modelyard.kinds.contract import Owned
from modelyard.kinds.shared import engine_pod, pods, traffic, workloads
from modelyard.kinds.shared.envoy import Address
from modelyard.kinds.shared.traffic import ROUTER, Routers
from modelyard.kinds.zerfooinferenceservice import naming
from modelyard.kinds.zerfooinferenceservice.naming import CANARY, PRIMARY

if TYPE_CHECKING:
    from modelyard.kinds.contract import Object, Seen
    from modelyard.kinds.shared.workloads import Rollout as Pods
    from modelyard.kinds.zerfooinferenceservice.api import ZerfooInferenceServiceSpec
    from modelyard.kinds.zerfooinferenceservice.server import Server

Json = dict[str, Any]

TEMPLATE: Final = "modelyard.dev/template"
"""Annotation of the Deployments of both tracks: a hash of the pod template that was asked for."""


class Traffic(Struct, frozen=True):
    """Where requests go, and where they should go."""

    routers: Routers = Routers()
    weight: int = 0
    """The share of the canary that the routers are to load, in per cent."""
    tracks: dict[str, Address] | None = None
    """The Services between which the routers choose; None: there are to be no routers (yet)."""
    through_routers: bool = False
    """Whether the Service is to lead to the routers."""
    removes_canary: bool = False
    """Whether the canary and the routers can go."""

    @property
    def weights(self) -> dict[str, int]:
        """The weights of both tracks that the routers are to load."""
        return weights_of(self.weight)


def weights_of(canary: int) -> dict[str, int]:
    """Return the weights of both tracks."""
    return {PRIMARY: 100 - canary, CANARY: canary}


def pods_of(seen: Seen, track: str) -> Pods:
    """Return the state of the pods of a track."""
    return workloads.read_rollout(seen.one(Owned(DEPLOYMENT, track)))


def leads_to_routers(service: Object[ZerfooInferenceServiceSpec], seen: Seen) -> bool:
    """Return whether the Service of clients leads to the routers."""
    name = naming.service_name(service.meta.name)
    found = next((one for one in seen.all(Owned(SERVICE)) if one.meta.name == name), None)
    return found is not None and found.spec.get("selector", {}).get(COMPONENT_LABEL) == ROUTER


def may_lead_to_routers(service: Object[ZerfooInferenceServiceSpec], seen: Seen, routers: Routers, weight: int) -> bool:
    """Return whether the Service of clients may lead to the routers, when they are to give the canary this weight.

    Once it leads there, one router that is ready is enough, whatever it has loaded: new weights take a moment.
    """
    have_loaded = routers.rollout.complete and routers.have_loaded(weights_of(weight))
    return have_loaded or (leads_to_routers(service, seen) and routers.rollout.ready > 0)


def track_addresses(service: Object[ZerfooInferenceServiceSpec], seen: Seen) -> dict[str, Address] | None:
    """Return the Services between which the routers choose; None: not both have an address yet."""
    places = {
        track: traffic.service_address(seen, naming.track_name(service.meta.name, track)) for track in (PRIMARY, CANARY)
    }
    found = {track: place for track, place in places.items() if place}
    return found if len(found) == len(places) else None


def is_up_to_date(service: Object[ZerfooInferenceServiceSpec], server: Server, seen: Seen) -> bool:
    """Return whether all pods of a track are ready and run what the spec says now.

    Right after an edit the Deployment is still the old one, complete, and would get requests for the old model.
    """
    found = seen.one(Owned(DEPLOYMENT, server.served.track))
    if found is None or server.pod is None or not workloads.read_rollout(found).complete:
        return False
    # By what was asked for, not by what is there: a webhook may change a template for good.
    return found.meta.annotation(TEMPLATE) == fingerprint(template(service, server, seen))


def template(service: Object[ZerfooInferenceServiceSpec], server: Server, seen: Seen) -> Json:
    """Return the pod template of a server whose pod is resolved."""
    assert server.pod, "without a problem the pod is resolved"
    labels = naming.track_labels(service.meta.name, server.served.track)
    return pods.pod_template(labels, engine_pod.pod_spec(server.spec, server.pod, seen.policy))
