"""What a user is told of resources that cannot be followed, and of objects that cannot be read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import POD
from modelyard.kinds import ALL
from modelyard.kube.errors import Forbidden, NotFound, Unauthorized, Unavailable
from modelyard.page.yard import Yard
from tests.kube.scripted import client_of, serving, stream
from tests.page.objects import ready, stored

if TYPE_CHECKING:
    from aiohttp import web

    from modelyard.core.objects import Stored
    from modelyard.kube.errors import KubeError

RESOURCES = (*(kind.resource for kind in ALL), POD)
AWAY = Unavailable(0, "NotReached", "the API server cannot be reached")


def yard(error: KubeError | None, *but: tuple[str, KubeError]) -> Yard:
    """A yard of which each resource has this trouble, but for some kinds."""
    client: Any = None
    made, others = Yard(client), dict(but)
    for resource in RESOURCES:
        made.took(resource, others.get(resource.kind, error))
    return made


def test_an_api_server_that_is_away_is_one_line() -> None:
    assert yard(AWAY).troubles() == ["everything: the API server cannot be reached"]


def test_what_has_the_same_cause_shares_a_line() -> None:
    forbidden, absent = Forbidden(403, "Forbidden", ""), NotFound(404, "", "")
    kinds = "mcps.core.inference-gateway.com, models.inference.llmkube.dev"
    assert yard(None, ("Model", absent), ("MCP", absent), ("Pod", forbidden)).troubles() == [
        f"{kinds}: not served by the cluster; install Modelyard with `modelyard install`",
        "pods: you lack the right to list and watch; ask for it, or name a namespace with -n",
    ]


def test_an_api_server_that_starts_is_one_line_whatever_was_asked_for() -> None:
    starting = {each.kind: Unavailable(503, "", f"list {each.label}: it starts") for each in RESOURCES}
    assert yard(None, *starting.items()).troubles() == ["everything: it starts"]


def test_credentials_that_are_not_accepted_are_told_with_the_remedy() -> None:
    rejected = {each.kind: Unauthorized(401, "", f"list {each.label}: Unauthorized") for each in RESOURCES}
    assert yard(None, *rejected.items()).troubles() == [
        "everything: the cluster does not accept your credentials; log in again, and if this stays, start the page anew"
    ]


@pytest.mark.parametrize(
    ("error", "sees"),
    [(None, True), (NotFound(404, "", ""), True), (Forbidden(403, "Forbidden", ""), False), (AWAY, False)],
)
def test_what_may_not_be_looked_at_may_exist(error: KubeError | None, sees: bool) -> None:
    assert yard(error).sees("Model/default/tiny") is sees
    assert yard(error).sees("Nothing/of/ours")


def test_what_can_be_followed_again_is_no_trouble() -> None:
    found = yard(AWAY)
    for resource in RESOURCES:
        found.took(resource, None)
    assert (found.troubles(), found.is_synced) == ([], True)


SYNCED = {
    "type": "BOOKMARK",
    "object": {"metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}},
}


def events(*items: Stored) -> list[Any]:
    """The first state of a watch."""
    versioned = (item.to_dict() for item in items)
    return [
        *(
            {"type": "ADDED", "object": each | {"metadata": each["metadata"] | {"resourceVersion": "1"}}}
            for each in versioned
        ),
        SYNCED,
    ]


async def test_an_object_that_cannot_be_read_keeps_no_other_from_being_shown() -> None:
    """As of an operator whose definition is another one: a map where ours has a list."""
    odd = stored("Gateway", "odd", {"providers": {"openai": {}}})
    plain = stored("Gateway", "plain", status=ready())

    async def of_gateways(request: web.Request) -> web.StreamResponse:
        found = (odd, plain) if request.path.endswith("/gateways") else ()
        return await stream(*events(*found))(request)

    async with serving(of_gateways) as api, client_of(api) as client:
        yard = Yard(client)
        running = asyncio.create_task(yard.run())
        async with asyncio.timeout(30):
            while len(yard.rows) < 2:
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
    assert [row.phase for _, row in sorted(yard.rows.items())] == ["Unknown", "Ready"]
    assert "see `modelyard doctor`" in yard.rows["Gateway/default/odd"].message


async def test_a_watch_that_a_fault_ends_is_told_and_begins_again() -> None:
    """A status that no definition of ours lets through ends the watch of its kind, and of no other."""
    bad = stored("Model", "bad", status={"conditions": ["Ready"]})
    good = stored("Model", "bad", status=ready())
    asked = 0

    async def of_models(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        if not request.path.endswith("/models"):
            return await stream(*events())(request)
        asked += 1
        return await stream(*events(bad if asked == 1 else good))(request)

    async with serving(of_models) as api, client_of(api) as client:
        yard = Yard(client, again=0.1)
        running = asyncio.create_task(yard.run())
        browser = yard.browser()
        told: list[str] = []
        async with asyncio.timeout(60):
            while not yard.is_synced or "Model/default/bad" not in yard.rows or yard.troubles():
                update = await browser.news()
                told += update.troubles or ()
        assert not running.done()
        running.cancel()
        await asyncio.wait([running])
    assert any(line.startswith("models.inference.llmkube.dev: it may be out of date") for line in told)
    assert asked == 2


async def test_a_change_after_a_quiet_time_is_told_at_once_and_many_are_gathered() -> None:
    client: Any = None
    yard = Yard(client)
    browser = yard.browser()
    yard.store(stored("Model", "first"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert list(yard.rows) == ["Model/default/first"]
    await browser.news()
    for number in range(100):
        yard.store(stored("Model", f"model-{number}"))
        await asyncio.sleep(0)
    updates = 0
    while len(yard.rows) < 101:
        await browser.news()
        updates += 1
    assert updates < 50
