"""The API `metrics.k8s.io` of one machine, which `kubectl top` and autoscalers ask: the metrics-server of a cluster.

`up.machine` runs it, and the API server passes requests on to it, as the APIService of `up.metrics_api` says. It serves
only clients with a certificate for the front proxy, so the API server has checked who asks, and whether they may. Which
pods and nodes a selector means is asked of the API server, too.
"""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from modelyard.core.resources import NODE, POD, Key
from modelyard.kube.errors import KubeError
from modelyard.local.clock import timestamp
from modelyard.local.node.metrics.sampler import Sampler
from modelyard.local.node.server.https import serving_https

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from aiohttp.typedefs import Handler

    from modelyard.core.objects import Metadata, Stored
    from modelyard.core.resources import Resource
    from modelyard.kube.client import Client
    from modelyard.local.command_lines import Trust
    from modelyard.local.node.metrics.usage import Measured, Usage

Json = dict[str, Any]

GROUP: Final = "metrics.k8s.io"
VERSION: Final = "v1beta1"
_API_VERSION: Final = f"{GROUP}/{VERSION}"
_ROOT: Final = f"/apis/{_API_VERSION}"
_KINDS: Final = {POD: "PodMetrics", NODE: "NodeMetrics"}
_UNAVAILABLE: Final = 503


class MetricsServer:
    """Serves what the pods of a state folder use, and what the machine uses as the node of this name."""

    def __init__(self, state: Path, client: Client, node: str, trust: Trust) -> None:
        self._client, self._node, self._trust = client, node, trust
        self._sampler = Sampler(state)

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[int]:
        """Serve while the block lasts; yields the port, which the APIService has to name."""
        application = web.Application(middlewares=[_errors_as_status])
        application.router.add_get(_ROOT, _resources)
        for path, handler in (
            ("/nodes", self._list_nodes),
            ("/nodes/{name}", self._get_node),
            ("/pods", self._list_pods),
            ("/namespaces/{namespace}/pods", self._list_pods),
            ("/namespaces/{namespace}/pods/{name}", self._get_pod),
        ):
            application.router.add_get(_ROOT + path, handler)
        async with serving_https(application, self._trust, port) as taken:
            yield taken

    async def _list_pods(self, request: web.Request) -> web.Response:
        pods, found = [pod async for pod in self._selected(POD, request)], await self._sampler.measure()
        return _list(POD, (pod_metrics(pod.meta, found) for pod in pods))

    async def _get_pod(self, request: web.Request) -> web.Response:
        pod = await self._client.get(POD, Key(request.match_info["namespace"], request.match_info["name"]))
        return _one(POD, pod.meta.name, pod_metrics(pod.meta, await self._sampler.measure()))

    async def _list_nodes(self, request: web.Request) -> web.Response:
        nodes, found = [node async for node in self._selected(NODE, request)], await self._sampler.measure()
        return _list(NODE, (self._node_metrics(node.meta, found) for node in nodes))

    async def _get_node(self, request: web.Request) -> web.Response:
        node = await self._client.get(NODE, Key("", request.match_info["name"]))
        return _one(NODE, node.meta.name, self._node_metrics(node.meta, await self._sampler.measure()))

    def _node_metrics(self, meta: Metadata, found: Measured) -> Json | None:
        return node_metrics(meta, found) if meta.name == self._node else None

    async def _selected(self, resource: Resource, request: web.Request) -> AsyncIterator[Stored]:
        token = ""
        while True:
            page = await self._client.list_page(
                resource,
                request.match_info.get("namespace", ""),
                request.query.get("labelSelector", ""),
                token=token,
                field_selector=request.query.get("fieldSelector", ""),
            )
            for item in page.items:
                yield item
            token = page.token
            if not token:
                return


def pod_metrics(meta: Metadata, found: Measured) -> Json | None:
    """Return the PodMetrics of a pod; None: it does not run here, or cannot be measured."""
    containers = found.pods.get(meta.uid)
    if not containers:
        return None
    return {
        **_head(POD, meta, max(used.window for used in containers.values())),
        "containers": [{"name": name, "usage": _quantities(used)} for name, used in containers.items()],
    }


def node_metrics(meta: Metadata, found: Measured) -> Json | None:
    """Return the NodeMetrics of this machine; None: it cannot be measured."""
    if found.machine is None:
        return None
    return {**_head(NODE, meta, found.machine.window), "usage": _quantities(found.machine)}


def _head(resource: Resource, meta: Metadata, window: float) -> Json:
    now = timestamp()
    kept = {"name": meta.name, "labels": meta.labels or {}, "creationTimestamp": now}
    return {
        "kind": _KINDS[resource],
        "apiVersion": _API_VERSION,
        "metadata": {**kept, **({"namespace": meta.namespace} if resource.namespaced else {})},
        "timestamp": now,
        "window": f"{window:.3f}s",
    }


def _quantities(used: Usage) -> Json:
    return {"cpu": f"{math.ceil(used.cpu * 1e9)}n", "memory": f"{used.memory // 1024}Ki"}


def _list(resource: Resource, items: Iterable[Json | None]) -> web.Response:
    kind = f"{_KINDS[resource]}List"
    body = {"kind": kind, "apiVersion": _API_VERSION, "metadata": {}, "items": [each for each in items if each]}
    return web.json_response(body)


def _one(resource: Resource, name: str, body: Json | None) -> web.Response:
    if body is None:
        return _status(404, "NotFound", f'{resource.plural}.{GROUP} "{name}" not found: nothing of it runs here')
    return web.json_response(body)


async def _resources(_: web.Request) -> web.Response:
    """Answer discovery, by which the API server also checks whether this server runs."""
    resources = [
        {
            "name": resource.plural,
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": ["get", "list"],
        }
        for resource, kind in _KINDS.items()
    ]
    return web.json_response(
        {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _API_VERSION, "resources": resources}
    )


@web.middleware
async def _errors_as_status(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except KubeError as error:
        return _status(error.status or _UNAVAILABLE, error.reason, error.message)


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return web.json_response({**body, "message": message, "reason": reason, "code": code}, status=code)
