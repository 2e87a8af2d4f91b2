"""What is decided without asking the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelyard.core.objects import Stored
from modelyard.core.plan import Child, Plan, RequeueAfter
from modelyard.core.reasons import Reason
from modelyard.core.resources import DEPLOYMENT
from modelyard.kinds.mcp import MCP
from modelyard.runtime.apply import CONTESTED_WAIT, Applier, full_body
from modelyard.runtime.cache import Cache
from modelyard.runtime.drift import MAX_REPAIRS, Drift
from tests.kube.scripted import client_of, serving, silence
from tests.runtime.objects import nobody, stored
from tests.support.clock import VirtualClock

if TYPE_CHECKING:
    from modelyard.core.objects import Json

OWNER = stored("tools", resource=MCP.resource)
BODY: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "tools", "labels": {"app.kubernetes.io/managed-by": "modelyard"}},
    "spec": {"paused": True},
}
CHILD = Child(DEPLOYMENT, "tools", BODY)


def changed_by_somebody() -> Stored:
    body = full_body(OWNER, CHILD)
    meta = {**body["metadata"], "uid": "u", "resourceVersion": "7"}
    return Stored.from_dict(DEPLOYMENT, {**body, "metadata": meta, "spec": {"paused": False}})


SOON = RequeueAfter(5.0, "soon")


@pytest.mark.parametrize(("planned", "expected"), [(None, CONTESTED_WAIT), (SOON, SOON)], ids=["rest", "soon"])
async def test_a_child_that_was_left_to_somebody_else_is_looked_at_again(
    planned: RequeueAfter | None, expected: RequeueAfter
):
    drift, cache = Drift(VirtualClock(), lambda _what, _kind: None), Cache(DEPLOYMENT, nobody, nobody)
    cache.upsert(changed_by_somebody())
    for _ in range(MAX_REPAIRS):
        drift.begin_repair(changed_by_somebody(), "spec.paused")
    async with serving(silence) as server, client_of(server) as client:
        applier = Applier(client, {DEPLOYMENT: cache}, drift)
        outcome = await applier.carry_out(OWNER, Plan(apply=(CHILD,), requeue_after=planned))
    assert outcome.warning
    assert (outcome.warning.reason, outcome.requeue_after) == (Reason.FIELD_CONTESTED, expected)
    assert server.asked == []


async def test_a_child_that_is_being_deleted_is_not_deleted_again():
    cache = Cache(DEPLOYMENT, nobody, nobody)
    leaving = stored("tools", 3, owner=f"{OWNER.meta.name}:{OWNER.meta.uid}", finalizing=True)
    cache.upsert(leaving)
    async with serving(silence) as server, client_of(server) as client:
        applier = Applier(client, {DEPLOYMENT: cache}, Drift(VirtualClock(), lambda _what, _kind: None))
        outcome = await applier.carry_out(OWNER, Plan(delete=(leaving.ref,)))
    assert (server.asked, outcome.problem, outcome.retry) == ([], None, False)


LONG = "é" * 65536
"""As many characters as a system prompt may have, and more bytes than Linux takes."""


@pytest.mark.parametrize(
    ("container", "named"),
    [
        ({"env": [{"name": "PROMPT", "value": LONG}]}, "the variable PROMPT of the container tools"),
        ({"command": ["tools"], "args": [LONG]}, "the argument 2 of the container tools"),
    ],
    ids=["variable", "argument"],
)
async def test_what_no_kernel_starts_is_not_written(container: Json, named: str):
    template = {"spec": {"containers": [{"name": "tools", **container}]}}
    child = Child(DEPLOYMENT, "tools", {**BODY, "spec": {"template": template}})
    async with serving(silence) as server, client_of(server) as client:
        caches = {DEPLOYMENT: Cache(DEPLOYMENT, nobody, nobody)}
        applier = Applier(client, caches, Drift(VirtualClock(), lambda _what, _kind: None))
        outcome = await applier.carry_out(OWNER, Plan(apply=(child,)))
    assert outcome.problem
    assert (outcome.problem.reason, server.asked) == (Reason.CONTAINER_CONFIG_INVALID, [])
    assert named in outcome.problem.message
