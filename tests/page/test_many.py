"""The overview with more objects than a window holds, in a real browser, from an API server that plays a script."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web

from modelyard.kube.connection import Connection
from modelyard.kube.credentials import Identity, StaticCredentials
from modelyard.page.server import PageSettings, serving_here
from tests.kube.scripted import listing, serving
from tests.page.browsers import opened
from tests.page.objects import not_ready, ready, stored
from tests.page.test_yard import events
from tools.browser import running_browser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Page as Tab

    from modelyard.core.objects import Stored

COUNT = 100
"""Of Models, and as many services."""
MODELS = [f"model-{number:03}" for number in range(COUNT)]
IDS = "[...document.querySelectorAll('[aria-label=Models] a.card')].map((card) => card.dataset.id)"
FOCUSED = "document.activeElement.dataset.id"
OUT_OF_SIGHT = """
Object.defineProperty(document, "hidden", { get: () => window.isOut === true });
window.turn = (isOut) => { window.isOut = isOut; document.dispatchEvent(new Event("visibilitychange")); };
"""
"""Browsers without a screen have all tabs in sight."""


class Objects:
    """An API server that has these objects, and tells changes of them."""

    def __init__(self, *items: Stored) -> None:
        self._items = items
        self._news: dict[str, asyncio.Queue[Any]] = {}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return await listing(revision=1)(request)
        plural = request.path.rpartition("/")[2]
        news = self._news[plural] = asyncio.Queue()
        for event in events(*(item for item in self._items if item.resource.plural == plural)):
            news.put_nowait(event)
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(msgspec.json.encode(await news.get()) + b"\n")

    def change(self, item: Stored) -> None:
        body = item.to_dict()
        body["metadata"]["resourceVersion"] = "2"
        self._news[item.resource.plural].put_nowait({"type": "MODIFIED", "object": body})


@asynccontextmanager
async def shown(*items: Stored) -> AsyncIterator[tuple[Objects, Tab]]:
    """A window with all objects."""
    objects = Objects(*items)
    async with serving(objects.answer) as api, running_browser() as browser:
        connection = Connection(api.url, StaticCredentials(Identity()))
        async with serving_here(connection, PageSettings()) as address, opened(browser) as tab:
            await tab.goto(address)
            await tab.wait_for_function(f"() => document.querySelectorAll('a.card').length === {len(items)}")
            yield objects, tab


@pytest.fixture(scope="module")
async def board() -> AsyncIterator[tuple[Objects, Tab]]:
    models = [stored("Model", name, status=ready()) for name in MODELS]
    services = [stored("InferenceService", name, {"modelRef": name}, ready()) for name in MODELS]
    async with shown(*models, *services) as found:
        yield found


async def test_columns_scroll_and_not_the_page(board: tuple[Objects, Tab]) -> None:
    _, tab = board
    high, window = await tab.evaluate("[document.documentElement.scrollHeight, innerHeight]")
    assert high <= window
    assert 0 < await tab.locator(".lines path").count() < 20, "only objects in sight have lines"


async def test_objects_out_of_sight_are_in_the_document_in_their_order(board: tuple[Objects, Tab]) -> None:
    """For searches of the browser in the page, for screen readers, and for the key Tab."""
    _, tab = board
    assert await tab.evaluate(IDS) == [f"Model/default/{name}" for name in MODELS]
    assert await tab.evaluate(f"window.find('{MODELS[-1]}')")


async def test_an_object_that_moves_keeps_the_focus(board: tuple[Objects, Tab]) -> None:
    objects, tab = board
    key = f"Model/default/{MODELS[-1]}"
    await tab.focus(f"a.card[data-id='{key}']")
    objects.change(stored("Model", MODELS[-1], status=not_ready("ModelSourceNotFound")))
    await tab.locator("a.card.attention").wait_for()
    assert (await tab.evaluate(FOCUSED), (await tab.evaluate(IDS))[0]) == (key, key)
    await tab.keyboard.press("ArrowDown")
    assert await tab.evaluate(FOCUSED) == f"Model/default/{MODELS[0]}"


async def test_tabs_out_of_sight_leave_the_connections_to_others(board: tuple[Objects, Tab]) -> None:
    """A browser has six to a server, for all its tabs together."""
    _, tab = board
    others = []
    for _ in range(6):
        other = await tab.context.new_page()
        await other.add_init_script(OUT_OF_SIGHT)
        await other.goto(tab.url)
        await other.locator("a.card").first.wait_for()
        await other.evaluate("turn(true)")
        others.append(other)
    await others[0].evaluate("turn(false)")
    await others[0].locator(".live.on").wait_for()
    for other in others:
        await other.close()
