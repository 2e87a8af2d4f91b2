"""The floor: the least that anybody must do to get MCP objects to Ready, done without any thought.

It creates the same children and the same three statuses as the operator. It never compares, never repairs, never asks
a server anything and dies of every error. It is a program, so that it is measured like the operator: `-m bench.floor`.
"""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop

from bench.objects import AT_ONCE
from modelyard.core.names import FIELD_MANAGER
from modelyard.core.resources import DEPLOYMENT, POD, Resource
from modelyard.kinds.contract import Seen
from modelyard.kinds.decode import decode
from modelyard.kinds.mcp import MCP
from modelyard.kube import config, wire
from modelyard.kube.transport import HttpTransport
from modelyard.runtime.apply import complete
from modelyard.runtime.watching import OURS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from modelyard.core.plan import Child
    from modelyard.core.resources import Key
    from modelyard.core.stored import Stored

Json = dict[str, Any]

_SILENCE_SECONDS = 600.0
_QUERY = {"fieldManager": FIELD_MANAGER}
_SERVER = {"name": "tiny", "version": "1.0", "protocolVersion": "2025-06-18"}


class Floor:
    """Three watches, sixteen hands."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport
        self._jobs: asyncio.Queue[Coroutine[None, None, None]] = asyncio.Queue()
        self._created: set[Key] = set()
        self._available: set[Key] = set()

    async def run(self) -> None:
        """Work until killed."""
        async with asyncio.TaskGroup() as group:
            for watch in (self._watch_objects, self._watch_deployments, self._watch_pods):
                group.create_task(watch())
            for _ in range(AT_ONCE):
                group.create_task(self._work())
            print("watching", flush=True)

    async def _work(self) -> None:
        while True:
            await (await self._jobs.get())

    async def _watch_objects(self) -> None:
        async for line in self._lines(MCP.resource, {}):
            happened, item = wire.event(MCP.resource, line)
            if happened == "ADDED":
                self._jobs.put_nowait(self._create(item))

    async def _watch_deployments(self) -> None:
        async for line in self._lines(DEPLOYMENT, {"labelSelector": OURS}):
            _, item = wire.event(DEPLOYMENT, line)
            if item.status.get("readyReplicas") and item.meta.key not in self._available:
                self._available.add(item.meta.key)
                self._go_on(item.meta.key)

    async def _watch_pods(self) -> None:
        async for _ in self._lines(POD, {"labelSelector": OURS}):
            pass

    async def _lines(self, resource: Resource, query: Json) -> AsyncIterator[bytes]:
        query = {**query, "watch": "1", "timeoutSeconds": "3600"}
        async with self._transport.stream(resource.path(), query=query, idle=_SILENCE_SECONDS) as stream:
            assert stream.status == 200, f"{resource.label}: {stream.status}"
            async for line in stream.lines:
                yield line

    async def _create(self, item: Stored) -> None:
        for child in MCP.plan(decode(MCP, item), Seen(datetime.now(UTC))).apply:
            await self._send("POST", child.resource.path(item.meta.namespace), body_of(item, child))
        await self._say(item.meta.key, created())
        self._created.add(item.meta.key)
        self._go_on(item.meta.key)

    def _go_on(self, key: Key) -> None:
        if key in self._created and key in self._available:
            self._jobs.put_nowait(self._finish(key))

    async def _finish(self, key: Key) -> None:
        await self._say(key, available())
        await self._say(key, responding())

    async def _say(self, key: Key, status: Json) -> None:
        path = MCP.resource.path(key.namespace, key.name, "status")
        await self._send("PATCH", path, {"status": status}, "application/merge-patch+json")

    async def _send(self, method: str, path: str, body: Json, content_type: str = "application/json") -> None:
        encoded = msgspec.json.encode(body)
        answer = await self._transport.request(method, path, query=_QUERY, body=encoded, content_type=content_type)
        assert answer.status < 300, f"{method} {path}: {answer.body.decode()}"


def body_of(owner: Stored, child: Child) -> Json:
    """Return a child exactly as the operator creates it."""
    body = complete(owner, child)
    if child.replicas:
        return {**body, "spec": {**body["spec"], "replicas": child.replicas.at_creation}}
    return body


def created() -> Json:
    """Return the first status."""
    told = conditions(("Available", "False"), ("Responding", "Unknown"), ("Ready", "False"))
    head = {"ready": False, "url": "http://service.default.svc.cluster.local:3000/mcp", "observedGeneration": 1}
    return {**head, "replicas": 1, "readyReplicas": 0, "toolCount": 0, "tools": [], "conditions": told}


def available() -> Json:
    """Return what changes when the pods are ready."""
    told = conditions(("Available", "True"), ("Responding", "Unknown"), ("Ready", "False"))
    return {"readyReplicas": 1, "conditions": told}


def responding() -> Json:
    """Return what changes when the server has answered."""
    told = conditions(("Available", "True"), ("Responding", "True"), ("Ready", "True"))
    return {"ready": True, "server": _SERVER, "toolCount": 2, "tools": ["add", "echo"], "conditions": told}


def conditions(*told: tuple[str, str]) -> list[Json]:
    """Return conditions as long as the operator's."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    rest = {"reason": "BareClient", "message": "said without looking", "observedGeneration": 1}
    return [{"type": name, "status": status, "lastTransitionTime": now, **rest} for name, status in told]


async def main() -> None:
    """Run the floor on the cluster that KUBECONFIG names."""
    transport = HttpTransport(config.find(os.environ))
    try:
        await Floor(transport).run()
    finally:
        await transport.close()


if __name__ == "__main__":
    uvloop.run(main())
