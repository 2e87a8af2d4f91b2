"""What is looked up of one object, from an API server that plays a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelyard.page.lookup import look_up
from modelyard.page.yard import Yard
from tests.kube.scripted import client_of, listing, serving
from tests.page.objects import ready, stored

if TYPE_CHECKING:
    from aiohttp import web

Json = dict[str, Any]


def event(number: int) -> Json:
    """One that is named, as those of client-go, by when it was first seen."""
    name, at = f"model.{number:016x}", f"2026-11-16T10:{number // 60:02}:{number % 60:02}Z"
    return {"metadata": {"name": name, "namespace": "default", "resourceVersion": "1"}, "reason": at, "eventTime": at}


async def test_of_hundreds_of_events_the_newest_are_shown() -> None:
    async def of_events(request: web.Request) -> web.StreamResponse:
        found = [event(number) for number in range(300)] if request.path.endswith("/events") else []
        return await listing(*found[: int(request.query["limit"])], revision=1)(request)

    model = stored("Model", "model", status=ready())
    async with serving(of_events) as api, client_of(api) as client:
        yard = Yard(client)
        yard.store(model)
        await yard.browser().news()
        detail = await look_up(yard, "Model/default/model", may_edit=False)
    assert detail
    assert [each.reason for each in detail.events] == [str(event(number)["reason"]) for number in range(299, 199, -1)]
