"""Reset the status of the last start: its pods are not ready, and its Services have no endpoints.

`machine` calls it before the controllers start. They would otherwise believe the stored status: Services would send
callers to processes that are gone, until the node has reported. Afterwards a pod is ready only by a process of this
start.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from modelyard.core.conditions import Truth, stored_condition
from modelyard.core.resources import POD
from modelyard.kube.errors import NotFound
from modelyard.local.clock import timestamp
from modelyard.local.node.proxy.service_proxy import ENDPOINT_SLICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.core.objects import Stored
    from modelyard.core.resources import Resource
    from modelyard.kube.client import Client

# EndpointSlices that users write lead to servers of their own, and no controller would write them again.
_BY_CONTROLLER: Final = "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io"
_UNTRUE: Final = frozenset({"Ready", "ContainersReady"})
_ENDED: Final = {"status": "False", "reason": "MachineRestarted", "message": "its processes are started again"}


async def reset_status(client: Client, node: str) -> None:
    """Mark all pods of the node as not ready, and empty all EndpointSlices of the endpoint controller."""
    async for pod in _all(client, POD, fields=f"spec.nodeName={node}"):
        if stored_condition(pod.status, "Ready").get("status") == Truth.TRUE:
            with suppress(NotFound):
                await client.merge_patch(POD, pod.meta.key, {"status": {"conditions": _conditions(pod)}}, "status")
    async for each in _all(client, ENDPOINT_SLICE, labels=_BY_CONTROLLER):
        with suppress(NotFound):
            await client.merge_patch(ENDPOINT_SLICE, each.meta.key, {"endpoints": []})


def _conditions(pod: Stored) -> list[dict[str, Any]]:
    ended = _ENDED | {"lastTransitionTime": timestamp()}
    return [entry | ended if entry["type"] in _UNTRUE else entry for entry in pod.status["conditions"]]


async def _all(client: Client, resource: Resource, labels: str = "", fields: str = "") -> AsyncIterator[Stored]:
    token = ""
    while True:
        page = await client.list_page(resource, selector=labels, token=token, field_selector=fields)
        for item in page.items:
            yield item
        token = page.token
        if not token:
            return
