"""Is a write needed? Asked of every child that a case file plans, as a real API server stores it.

The answer must be no for what the server stored, whatever it added, dropped and respelled; and yes as soon as any
single statement of ours does not hold any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelyard.core.diff import fingerprint, first_difference
from modelyard.core.plan import Child, CreateOnly
from modelyard.core.resources import Key, Resource
from modelyard.runtime.apply import full_body, in_namespace_of, with_owner
from tests.core.leaves import overlooked
from tests.kinds.cases import ALL_CASES, named, play

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.objects import Stored
    from modelyard.kube.client import Client

CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")


def different_children() -> Iterator[tuple[str, Child | CreateOnly]]:
    """Return every child of every case, each only once."""
    known: set[str] = set()
    for name, kind, case in named((kind, file, case) for kind, file, case in ALL_CASES if not case.invalid):
        for child in play(kind, case).plan.apply:
            if (intent := fingerprint(child.body)) not in known:
                known.add(intent)
                yield f"{child.resource.kind}, {name}"[:100], child


PLANNED = dict(different_children())
CHILDREN = {name: child for name, child in PLANNED.items() if isinstance(child, Child)}
MADE_ONCE = {name: child for name, child in PLANNED.items() if isinstance(child, CreateOnly)}
every_child = pytest.mark.parametrize("name", CHILDREN)


@pytest.fixture
async def owner(client: Client, namespace: str) -> Stored:
    """Something that exists, so that the garbage collector leaves its children alone."""
    meta = {"name": "owner", "namespace": namespace}
    return await client.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


@every_child
async def test_a_child_needs_no_write_as_it_is_stored_and_one_when_any_statement_of_ours_is_broken(
    client: Client, owner: Stored, name: str
):
    child = CHILDREN[name]
    body = full_body(owner, child)
    created = await client.create(child.resource, body)
    assert first_difference(body, created.to_dict()) is None
    # The same intent again: an apply is stricter than a POST, for example with two variables of one name.
    applied = await client.apply(child.resource, Key(owner.meta.namespace, child.name), body)
    assert first_difference(body, applied.to_dict()) is None
    assert overlooked(body, applied.to_dict()) == []


@pytest.mark.parametrize("name", MADE_ONCE)
async def test_what_is_made_once_is_taken_as_it_is_written(client: Client, owner: Stored, name: str):
    child = MADE_ONCE[name]
    body = in_namespace_of(owner, child.body) if child.shared else with_owner(owner, child.body)
    created = await client.create(child.resource, body)
    assert first_difference(body, created.to_dict()) is None
