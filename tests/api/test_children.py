"""Is a write needed? Asked of every child that a case file plans, as a real API server stores it.

The answer must be no for what the server stored, whatever it added, dropped and respelled; and yes as soon as any
single statement of ours does not hold any more.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from modelyard.core.diff import fingerprint, first_difference
from modelyard.core.plan import Child, CreateOnly
from modelyard.core.resources import Key, Resource
from modelyard.kube.errors import AlreadyExists
from modelyard.runtime.apply import full_body, in_namespace_of, with_owner
from tests.conftest import fresh_namespace
from tests.core.leaves import overlooked
from tests.kinds.cases import VALID_CASES, played

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from modelyard.core.objects import Json, Stored
    from modelyard.kube.client import Client
    from modelyard.local.cluster import Cluster

CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")


def different_children() -> Iterator[tuple[str, Child | CreateOnly]]:
    """Return every child of every case, each only once; none of a resource that this cluster lacks."""
    known: set[str] = set()
    for name in VALID_CASES:
        for child in (one for one in played(name).plan.apply if not one.resource.optional):
            if (intent := fingerprint(child.body)) not in known:
                known.add(intent)
                yield f"{child.resource.kind}, {name}"[:100], child


PLANNED = dict(different_children())
CHILDREN = {name: child for name, child in PLANNED.items() if isinstance(child, Child)}
MADE_ONCE = {name: child for name, child in PLANNED.items() if isinstance(child, CreateOnly)}
every_child = pytest.mark.parametrize("name", CHILDREN)


@pytest.fixture(scope="module")
async def owner(cluster: Cluster, client: Client) -> AsyncIterator[Stored]:
    """Something that exists, so that the garbage collector leaves its children alone."""
    async with fresh_namespace(cluster) as namespace:
        meta = {"name": "owner", "namespace": namespace}
        yield await client.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


@every_child
async def test_a_child_needs_no_write_as_it_is_stored_and_one_when_any_statement_of_ours_is_broken(
    client: Client, owner: Stored, name: str
):
    child = CHILDREN[name]
    body, key = full_body(owner, child), Key(owner.meta.namespace, child.name)
    created = await create(client, child.resource, without_pods(body))
    assert first_difference(body, created.to_dict()) is None
    # The same intent again: an apply is stricter than a POST, for example with two variables of one name.
    applied = await client.apply(child.resource, key, body)
    assert first_difference(body, applied.to_dict()) is None
    assert overlooked(body, applied.to_dict()) == []
    await client.delete(child.resource, key, applied.meta.uid)


@pytest.mark.parametrize("name", MADE_ONCE)
async def test_what_is_made_once_is_taken_as_it_is_written(cluster: Cluster, owner: Stored, name: str):
    child = MADE_ONCE[name]
    body = in_namespace_of(owner, child.body) if child.shared else with_owner(owner, child.body)
    collection = child.resource.path(owner.meta.namespace)
    created = await cluster.controlplane.admin.create(f"{collection}?dryRun=All", body)
    assert first_difference(body, created) is None


async def create(client: Client, resource: Resource, body: Json) -> Stored:
    """Create a child, as soon as the one of the same name before it is gone: a claim is protected for a moment."""
    async with asyncio.timeout(60):
        while True:
            with suppress(AlreadyExists):
                return await client.create(resource, body)
            await asyncio.sleep(0.2)


def without_pods(body: Json) -> Json:
    """Return a child that the controllers have nothing to do for: the number of pods is no statement of ours."""
    return {**body, "spec": {**body["spec"], "replicas": 0}} if body["kind"] == "Deployment" else body
