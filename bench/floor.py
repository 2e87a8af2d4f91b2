"""The floor: the least that anybody must do to get objects to Ready, done without any thought.

It creates the same children and as many statuses as the operator. It never compares, never repairs, never asks a server
anything and dies of every error. It is a program, so that it is measured like the operator: `-m bench.floor MIX`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop

from bench import objects, sayings
from modelyard.core.conditions import stored_condition
from modelyard.core.names import FIELD_MANAGER, FINALIZER, INSTANCE_LABEL, OURS
from modelyard.core.objects import Stored
from modelyard.core.plan import Child
from modelyard.core.resources import DEPLOYMENT, JOB, POD, VOLUME_CLAIM, Key, Resource
from modelyard.kinds.contract import Every, Named, Seen
from modelyard.kinds.decode import decode
from modelyard.kinds.gather import Gathering
from modelyard.kube import codec, config
from modelyard.kube.transport import HttpTransport
from modelyard.runtime.apply import full_body, in_namespace_of, with_owner
from modelyard.runtime.dependents import matches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence

    from bench.objects import Subject
    from modelyard.core.plan import CreateOnly, Plan
    from modelyard.kinds.contract import Kind, Lookup

Json = dict[str, Any]

_SILENCE_SECONDS = 600.0
_MOMENT_SECONDS = 0.002
_QUERY = {"fieldManager": FIELD_MANAGER}


class Floor:
    """A few watches, sixteen hands."""

    def __init__(self, transport: HttpTransport, subjects: Sequence[Subject]) -> None:
        self._transport = transport
        self._subjects = {subject.kind.resource: subject for subject in subjects}
        self._jobs: asyncio.Queue[Coroutine[None, None, None]] = asyncio.Queue()
        self._known: dict[tuple[Resource, Key], Stored] = {}
        self._owned: dict[tuple[Resource, Key], Stored] = {}
        self._items: dict[Key, Stored] = {}
        self._shared: set[str] = set()
        self._created: set[Key] = set()
        self._available: set[Key] = set()

    async def run(self) -> None:
        """Work until killed."""
        async with asyncio.TaskGroup() as group:
            for subject in self._subjects.values():
                group.create_task(self._watch_objects(subject.kind))
                for kind, _ in subject.needs:
                    group.create_task(self._watch_needed(kind))
            for watch in (self._watch_deployments, self._watch_pods):
                group.create_task(watch())
            if any(subject.kind.name in sayings.WHEN_FETCHED for subject in self._subjects.values()):
                group.create_task(self._watch_jobs())
            for _ in range(objects.AT_ONCE):
                group.create_task(self._work())
            print("watching", flush=True)

    async def _work(self) -> None:
        while True:
            await (await self._jobs.get())

    async def _watch_needed(self, kind: Kind) -> None:
        async for line in self._lines(kind.resource, {}):
            happened, item = codec.event(kind.resource, line)
            if happened == "ADDED":
                self._known[kind.resource, item.meta.key] = item
                self._jobs.put_nowait(self._say(kind, item.meta.key, sayings.AT_ONCE[kind.name]()))

    async def _watch_objects(self, kind: Kind) -> None:
        async for line in self._lines(kind.resource, {}):
            happened, item = codec.event(kind.resource, line)
            if happened == "ADDED":
                self._items[item.meta.key] = item
                self._jobs.put_nowait(self._create(item))

    async def _watch_deployments(self) -> None:
        async for line in self._lines(DEPLOYMENT, {"labelSelector": OURS}):
            _, item = codec.event(DEPLOYMENT, line)
            key = Key(item.meta.namespace, item.meta.label(INSTANCE_LABEL))
            if item.status.get("readyReplicas") and key not in self._available:
                self._available.add(key)
                self._go_on(key)

    async def _watch_jobs(self) -> None:
        async for line in self._lines(JOB, {"labelSelector": OURS}):
            _, item = codec.event(JOB, line)
            owner = Key(item.meta.namespace, item.meta.label(INSTANCE_LABEL))
            if stored_condition(item.status, "Complete") and (JOB, owner) not in self._owned:
                self._owned[JOB, owner] = item
                self._jobs.put_nowait(self._deploy(self._items[owner]))

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
        kind = self._subjects[item.resource].kind
        if kind.finalize:
            await self._change(kind, item.meta.key, {"metadata": {"finalizers": [FINALIZER]}})
        await self._create_children(item)
        await self._say(kind, item.meta.key, sayings.AT_ONCE[kind.name]())
        if kind.name not in sayings.WHEN_FETCHED:
            self._created.add(item.meta.key)
            self._go_on(item.meta.key)

    async def _deploy(self, item: Stored) -> None:
        kind = self._subjects[item.resource].kind
        before, after = sayings.WHEN_FETCHED[kind.name]
        await self._say(kind, item.meta.key, before())
        await self._create_children(item)
        await self._say(kind, item.meta.key, after())
        self._created.add(item.meta.key)
        self._go_on(item.meta.key)

    async def _create_children(self, item: Stored) -> None:
        for child in (await self._plan(item)).apply:
            if child.resource == VOLUME_CLAIM and child.name in self._shared:
                continue
            self._shared.add(child.name)
            body = body_of(item, child)
            if child.resource == VOLUME_CLAIM:
                self._known[VOLUME_CLAIM, Key(item.meta.namespace, child.name)] = Stored.from_dict(VOLUME_CLAIM, body)
            await self._send("POST", child.resource.path(item.meta.namespace), body)

    async def _plan(self, item: Stored) -> Plan:
        subject = self._subjects[item.resource]
        kind = subject.kind
        while any((needed.resource, item.meta.key) not in self._known for needed, _ in subject.needs):
            await asyncio.sleep(_MOMENT_SECONDS)
        obj = decode(kind, item)
        reading = Gathering(kind, obj, Seen(datetime.now(UTC)))
        for read in reading:
            reading.found(read, self._found(read, item))
        seen = reading.seen({})
        return kind.plan(obj, seen, *kind.decided(obj, seen))

    def _found(self, read: Lookup, reader: Stored) -> dict[Key, Stored]:
        if isinstance(read, Every):
            alike = (item for item in self._items.values() if item.resource == read.resource)
            return {item.meta.key: item for item in alike if matches(read, item)}
        if isinstance(read, Named):
            found = self._known.get((read.resource, Key(reader.meta.namespace, read.name)))
        else:
            found = self._owned.get((read.resource, reader.meta.key))
        return {found.meta.key: found} if found else {}

    def _go_on(self, key: Key) -> None:
        if key in self._created and key in self._available:
            self._jobs.put_nowait(self._finish(self._items[key]))

    async def _finish(self, item: Stored) -> None:
        kind = self._subjects[item.resource].kind
        for said in sayings.WHEN_AVAILABLE[kind.name]:
            await self._say(kind, item.meta.key, said())

    async def _say(self, kind: Kind, key: Key, status: Json) -> None:
        await self._change(kind, key, {"status": status}, "status")

    async def _change(self, kind: Kind, key: Key, body: Json, subresource: str = "") -> None:
        path = kind.resource.path(key.namespace, key.name, subresource)
        await self._send("PATCH", path, body, "application/merge-patch+json")

    async def _send(self, method: str, path: str, body: Json, content_type: str = "application/json") -> None:
        encoded = msgspec.json.encode(body)
        answer = await self._transport.request(method, path, query=_QUERY, body=encoded, content_type=content_type)
        assert answer.status < 300, f"{method} {path}: {answer.body.decode()}"


def body_of(owner: Stored, child: Child | CreateOnly) -> Json:
    """Return a child exactly as the operator creates it."""
    if not isinstance(child, Child):
        return in_namespace_of(owner, child.body) if child.shared else with_owner(owner, child.body)
    body = full_body(owner, child)
    if child.replicas:
        return {**body, "spec": {**body["spec"], "replicas": child.replicas.at_creation}}
    return body


async def main() -> None:
    """Run the floor on the cluster that KUBECONFIG names, for the mix that the command line names."""
    transport = HttpTransport(config.find(os.environ))
    try:
        await Floor(transport, [subject for subject, _ in objects.MIXES[sys.argv[1]].shares]).run()
    finally:
        await transport.close()


if __name__ == "__main__":
    uvloop.run(main())
