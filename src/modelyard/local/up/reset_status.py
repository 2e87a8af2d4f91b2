"""Reset the status of the last start: its pods are not ready, its Services have no endpoints, its objects do not serve.

`machine` calls it before the controllers and the operator start. They would otherwise believe the stored status:
Services would send callers to processes that are gone, and objects would be Ready at addresses that refuse, until the
node, the controllers and the operator have reported one after the other. Afterwards an object is ready only by
processes of this start.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from modelyard.core.conditions import Truth, stored_condition
from modelyard.core.reasons import Reason
from modelyard.core.resources import DEPLOYMENT, ENDPOINT_SLICE, POD, Resource
from modelyard.kinds import ALL
from modelyard.kinds.inferenceservice.phases import ServicePhase
from modelyard.kinds.modeldeployment.api import RESOURCE as MODEL_DEPLOYMENT
from modelyard.kinds.modeldeployment.api import Phase
from modelyard.kinds.zerfooinferenceservice.api import RESOURCE as ZERFOO
from modelyard.kinds.zerfooinferenceservice.status import Phase as ZerfooPhase
from modelyard.kube.errors import NotFound
from modelyard.local.clock import timestamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.core.objects import Stored
    from modelyard.kube.client import Client

Json = dict[str, Any]

# Not Models: one is ready by its weights, which are still there.
_SERVE: Final = tuple(kind.resource for kind in ALL if DEPLOYMENT in kind.children)
_REPLICA_SET: Final = Resource("apps", "v1", "ReplicaSet", "replicasets")
# EndpointSlices that users write lead to servers of their own, and no controller would write them again.
_BY_CONTROLLER: Final = "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io"
_PHASES: Final = {MODEL_DEPLOYMENT: Phase.DEPLOYING, ZERFOO: ZerfooPhase.PENDING}
_MESSAGE: Final = "its processes are started again"
_OF_PODS: Final = dict.fromkeys(("Ready", "ContainersReady"), Truth.FALSE)
# `Responding` and `CardFetched` as well: the operator takes the last answer of a server for that of the same pods.
_OF_OBJECTS: Final = {
    "Ready": Truth.FALSE,
    "Available": Truth.FALSE,
    "PrimaryReady": Truth.FALSE,
    "CanaryReady": Truth.FALSE,
    "TrafficSplit": Truth.FALSE,
    "Progressing": Truth.TRUE,
    "Responding": Truth.UNKNOWN,
    "CardFetched": Truth.UNKNOWN,
}


async def reset_status(client: Client, node: str) -> None:
    """Mark as not ready all pods of the node, and all that counts them; empty all EndpointSlices of the controller."""
    # What users look at comes first: nothing must be Ready for longer than this start takes to get here.
    for resource in _SERVE:
        async for item in _all(client, resource):
            if _is_ready(item):
                await _patch(client, item, _unready(item))
    async for pod in _all(client, POD, fields=f"spec.nodeName={node}"):
        if _is_ready(pod):
            await _patch(client, pod, {"conditions": _conditions(pod, _OF_PODS, "MachineRestarted")})
    for resource in (_REPLICA_SET, DEPLOYMENT):
        async for item in _all(client, resource):
            if item.status.get("readyReplicas"):
                await _patch(client, item, {"readyReplicas": None, "availableReplicas": None})
    async for item in _all(client, ENDPOINT_SLICE, labels=_BY_CONTROLLER):
        with suppress(NotFound):
            await client.merge_patch(ENDPOINT_SLICE, item.meta.key, {"endpoints": []})


def _unready(item: Stored) -> Json:
    """Return the changed fields of a service's status; only those that its kind has."""
    phase = _PHASES.get(item.resource, ServicePhase.CREATING)
    tracks = [{**track, "readyReplicas": 0} for track in item.status.get("tracks", ())]
    fields = {"phase": phase.value, "ready": False, "readyReplicas": 0, "readyPods": 0, "tracks": tracks}
    kept = {name: value for name, value in fields.items() if name in item.status}
    return {**kept, "conditions": _conditions(item, _OF_OBJECTS, Reason.STARTING)}


def _conditions(item: Stored, truths: dict[str, Truth], reason: str) -> list[Json]:
    now = timestamp()
    changed = {"reason": str(reason), "message": _MESSAGE, "lastTransitionTime": now}
    return [
        {**entry, **changed, "status": str(truths[entry["type"]])} if entry["type"] in truths else entry
        for entry in item.status["conditions"]
    ]


def _is_ready(item: Stored) -> bool:
    return stored_condition(item.status, "Ready").get("status") == Truth.TRUE


async def _patch(client: Client, item: Stored, status: Json) -> None:
    with suppress(NotFound):
        await client.merge_patch(item.resource, item.meta.key, {"status": status}, "status")


async def _all(client: Client, resource: Resource, labels: str = "", fields: str = "") -> AsyncIterator[Stored]:
    token = ""
    while True:
        page = await client.list_page(resource, selector=labels, token=token, field_selector=fields)
        for item in page.items:
            yield item
        token = page.token
        if not token:
            return
