"""The overview with more objects than a window holds, in a real browser, from an API server that plays a script."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web

from modelyard.core import names
from modelyard.core.resources import POD
from modelyard.kube.connection import Connection
from modelyard.kube.credentials import Identity, StaticCredentials
from modelyard.page.server import PageSettings, serving_here
from tests.kube.scripted import listing, serving, stream
from tests.page.browsers import opened
from tests.page.objects import not_ready, pod, ready, stored
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
ENDLESS = """
window.fetch = ((real) => async (path, options) => {
  if (!options?.method) return real(path, options);
  return new Response(new ReadableStream({ start: (body) => { window.body = body; } }));
})(window.fetch);
window.say = (line) => body.enqueue(new TextEncoder().encode(JSON.stringify({ text: line }) + "\\n"));
"""
"""A model that says what the test says."""
TALK = "document.querySelector('.talk')"


class Objects:
    """An API server that has these objects, and tells changes of them."""

    def __init__(self, *items: Stored) -> None:
        self._items = items
        self._news: dict[str, asyncio.Queue[Any]] = {}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/log"):
            return await stream(b"a line of a log\n")(request)
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
    objects, cards = Objects(*items), sum(item.resource != POD for item in items)
    async with serving(objects.answer) as api, running_browser() as browser:
        connection = Connection(api.url, StaticCredentials(Identity()))
        async with serving_here(connection, PageSettings(may_edit=True)) as address, opened(browser) as tab:
            await tab.goto(address)
            await tab.wait_for_function(f"() => document.querySelectorAll('a.card').length === {cards}")
            yield objects, tab


@pytest.fixture(scope="module")
async def board() -> AsyncIterator[tuple[Objects, Tab]]:
    models = [stored("Model", name, status=ready()) for name in MODELS]
    services = [stored("InferenceService", name, {"modelRef": name}, ready()) for name in MODELS]
    labels = {names.KIND_LABEL: "inferenceservice", names.INSTANCE_LABEL: MODELS[0]}
    running = pod("model-000-0", {"containerStatuses": [{"name": "server", "state": {"running": {}}}]}, **labels)
    others = [stored(kind, "other", status=ready()) for kind in ("InferenceHost", "Gateway", "Agent", "MCP")]
    async with shown(*models, *services, *others, running) as found:
        yield found


async def test_columns_scroll_and_not_the_page(board: tuple[Objects, Tab]) -> None:
    _, tab = board
    high, window = await tab.evaluate("[document.documentElement.scrollHeight, innerHeight]")
    assert high <= window
    columns = "document.querySelector('.board')"
    wide, sight = await tab.evaluate(f"[{columns}.scrollWidth, {columns}.clientWidth]")
    assert wide <= sight, "all columns are in sight"
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


async def test_who_comes_back_from_an_object_finds_what_was_looked_at(board: tuple[Objects, Tab]) -> None:
    _, tab = board
    await tab.get_by_label("Filter").fill("Model-09")
    await tab.wait_for_function("() => document.querySelectorAll('a.card').length === 20")
    column = "document.querySelector('[aria-label=Models] .scroller')"
    await tab.evaluate(f"{column}.scrollTop = 100")
    await tab.locator("a.card", has_text="model-095").first.click()
    await tab.locator("h1", has_text="model-095").wait_for()
    await tab.go_back()
    await tab.wait_for_function("() => document.querySelectorAll('a.card').length === 20")
    assert await tab.get_by_label("Filter").input_value() == "Model-09"
    assert await tab.evaluate(f"{column}.scrollTop") == 100
    await tab.get_by_label("Filter").fill("")


async def test_escape_closes_a_dialog_and_not_the_view(board: tuple[Objects, Tab]) -> None:
    _, tab = board
    home = tab.url.partition("#")[0]
    await tab.goto(f"{home}#/object/Model/default/model-000")
    await tab.get_by_role("button", name="Delete").click()
    await tab.get_by_role("button", name="Keep it").focus()
    await tab.keyboard.press("Escape")
    await tab.get_by_role("dialog").wait_for(state="detached")
    assert tab.url.endswith("model-000")


async def test_nothing_is_deleted_or_stopped_by_a_field_that_is_left_empty(board: tuple[Objects, Tab]) -> None:
    _, tab = board
    asked: list[str] = []
    tab.on("request", lambda sent: asked.append(sent.url) if sent.method == "POST" else None)
    await tab.goto(f"{tab.url.partition('#')[0]}#/object/InferenceService/default/model-000")
    await tab.get_by_role("button", name="Delete").click()
    delete = tab.get_by_role("dialog").get_by_role("button", name="Delete")
    assert await delete.is_disabled()
    await tab.get_by_label("Type model-000 to confirm").fill("model-000")
    assert await delete.is_enabled()
    await tab.get_by_role("button", name="Keep it").click()
    await tab.get_by_label("Replicas").fill("")
    await tab.get_by_role("button", name="Scale").click()
    assert await tab.get_by_label("Replicas").evaluate("input => input.validity.valueMissing")
    assert asked == []


async def test_an_address_that_is_none_leads_to_the_overview(board: tuple[Objects, Tab]) -> None:
    _, tab = board
    await tab.goto(f"{tab.url.partition('#')[0]}#/object/100%")
    await tab.locator("a.card").first.wait_for()


async def test_a_tab_out_of_sight_leaves_its_connections_to_others(board: tuple[Objects, Tab]) -> None:
    """A browser has six to a server, for all its tabs together."""
    _, board_tab = board
    tab = await board_tab.context.new_page()
    await tab.add_init_script(OUT_OF_SIGHT)
    await tab.goto(f"{board_tab.url.partition('#')[0]}#/object/InferenceService/default/{MODELS[0]}")
    line, live = tab.locator(".log", has_text="a line of a log"), tab.locator(".live.on")
    await line.wait_for()
    async with (
        tab.expect_event("requestfailed", lambda request: "/api/log" in request.url),
        tab.expect_event("requestfailed", lambda request: "/api/stream" in request.url),
    ):
        await tab.evaluate("turn(true)")
    await tab.locator(".log").evaluate("log => log.replaceChildren()")
    await live.wait_for(state="detached")
    await tab.evaluate("turn(false)")
    await line.wait_for()
    await live.wait_for()
    await tab.close()


async def test_an_answer_that_goes_on_can_be_read_from_its_begin(board: tuple[Objects, Tab]) -> None:
    _, board_tab = board
    tab = await board_tab.context.new_page()
    await tab.add_init_script(ENDLESS)
    await tab.goto(f"{board_tab.url.partition('#')[0]}#/ask/InferenceService/default/model-000")
    await tab.get_by_role("button", name="Ask").click()
    await tab.wait_for_function("() => window.body")
    await tab.evaluate("say('first' + ' and so on'.repeat(5000))")
    await tab.locator(".said.model", has_text="first").wait_for()
    assert await tab.evaluate(f"{TALK}.scrollTop > 0"), "who does not scroll sees the newest"
    await tab.evaluate(f"{TALK}.scrollTop = 0")
    await tab.evaluate("say('last')")
    await tab.locator(".said.model", has_text="last").wait_for()
    assert await tab.evaluate(f"{TALK}.scrollTop") == 0
    await tab.close()
