"""The page in a real browser, on a machine that is up: a newcomer's walk, live changes, and text that stays text."""

from __future__ import annotations

import base64
import json
import os
import re
import time
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import yaml
from aiohttp import web

from modelyard.core.image import IMAGE
from modelyard.kube.config import in_cluster_as
from modelyard.local.ports import free_ports
from modelyard.page.server import PageSettings, serving_in_cluster
from tests.e2e.yards import condition, manifest, model, running_yard, service
from tests.page.browsers import opened, serious_faults
from tools.browser import running_browser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from playwright.async_api import Browser
    from playwright.async_api import Page as Tab

    from tests.e2e.yards import Yard

Json = dict[str, Any]

MARKUP = "<img/src=x/onerror=window.hacked=1>"
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\?token=\S+")
WIDE = {"width": 1360, "height": 820}
OTHERS = (
    {
        "apiVersion": "core.inference-gateway.com/v1alpha1",
        "kind": "MCP",
        "metadata": {"name": "tools"},
        "spec": {"image": "registry.example.com/tools:1", "replicas": 0},
    },
    {
        "apiVersion": "modelyard.dev/v1alpha1",
        "kind": "InferenceHost",
        "metadata": {"name": "mac-mini"},
        "spec": {"endpoint": "http://192.0.2.7", "unschedulable": True},
    },
    {
        "apiVersion": "modelyard.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": "qwen"},
        "spec": {"model": "qwen3:8b"},
    },
)
"""Objects of other columns that run nothing on this machine."""
NARROW = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
async def yard(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    """One machine that is up, with our own model."""
    os.environ.setdefault("KUBEBUILDER_ASSETS", str(assets))
    folder = tmp_path_factory.mktemp("browser")
    async with running_yard(
        folder / "state", "-f", manifest(folder / "yard.yaml", model("yard"), service("yard"))
    ) as up:
        yield up


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests."""
    async with running_browser() as running:
        yield running


@pytest.fixture(scope="module")
async def address(yard: Yard) -> str:
    """The address that was printed."""
    found = ADDRESS.search(yard.output.read_text())
    assert found
    return found[0]


@pytest.fixture(scope="module")
async def tab(browser: Browser, address: str) -> AsyncIterator[Tab]:
    """The one window that has come with the printed address."""
    async with opened(browser, viewport=WIDE) as page:
        await page.goto(address)
        await page.wait_for_selector("a.card.ready")
        yield page


@pytest.fixture
def picture(request: pytest.FixtureRequest, tmp_path: Path, tab: Tab) -> Callable[[str], Any]:
    """Take a picture of the window: for the documentation with `--pictures`, else only to see that it can be."""
    folder = request.config.getoption("--pictures") or tmp_path

    async def take(name: str) -> None:
        await tab.screenshot(path=Path(folder) / f"page-{name}.png", animations="disabled")

    return take


async def test_a_newcomer_gets_from_the_printed_address_to_an_answer(tab: Tab, picture: Any) -> None:
    assert await tab.locator("nav a[aria-current=page]").inner_text() == "Overview"
    assert "token" not in tab.url
    await tab.get_by_role("link", name="yard").filter(has_text="InferenceService").click()
    await tab.locator("h1", has_text="yard").wait_for()
    await tab.get_by_role("region", name="Conditions").get_by_text("InferenceReady").first.wait_for()
    await tab.locator(".log", has_text="listening").wait_for()
    await tab.get_by_role("link", name="Ask it").click()
    await tab.get_by_label("Question").fill("Which model are you?")
    await tab.get_by_role("button", name="Ask").click()
    await tab.locator(".said.model", has_text="I am Yard").wait_for()
    figures = await tab.locator(".figures", has_text="first token after").inner_text()
    assert re.search(r"first token after \d+\.\d\d s\s+[\d.]+ tokens/s\s+\d+ tokens\s+model yard", figures)
    assert "/v1/chat/completions" in await tab.get_by_label("Command").inner_text()
    await picture("ask")


async def test_the_address_lets_no_second_browser_in(browser: Browser, tab: Tab, address: str) -> None:
    async with browser_of_stranger(browser) as stranger:
        await stranger.goto(address)
        assert await stranger.locator("h1").inner_text() == "This page needs its address"
        assert await serious_faults(stranger) == []
        markup = "() => { try { document.body.innerHTML = '<b>'; return 'taken' } catch (error) { return error.name } }"
        assert await stranger.evaluate(markup) == "TypeError", "no script can turn text into markup"


async def test_a_download_that_fails_shows_its_reason_as_soon_as_the_status_does(
    tab: Tab, yard: Yard, picture: Any
) -> None:
    taken = []
    async with refusing_server() as origin:
        # A busy machine may delay one of them.
        for number in range(3):
            name = f"lost-{number}"
            await yard.apply({**model(name), "spec": {"source": f"{origin}/qwen3-8b.gguf"}}, service(name))
            await tab.goto(f"{tab.url.partition('#')[0]}#/object/InferenceService/default/{name}")
            body = await yard.until(
                lambda body: condition(body).get("reason") == "ModelSourceNotFound", "inferenceservice", name
            )
            seen = time.monotonic()
            await tab.locator(".why.attention .cause").wait_for()
            taken.append(time.monotonic() - seen)
            cause = await tab.locator(".why.attention").inner_text()
            assert condition(body)["message"].partition(";")[0] in cause
            if taken[-1] < 2:
                break
    assert min(taken) < 2
    await picture("failed")
    await tab.get_by_text("From a shell").click()
    commands = await tab.get_by_label("Commands").inner_text()
    assert all(line.endswith(f" --kubeconfig={yard.folder.kubeconfig}") for line in commands.splitlines())


async def test_text_of_servers_cannot_become_markup(tab: Tab, yard: Yard) -> None:
    home = tab.url.partition("#")[0]
    # A container that writes it to its log, and ends.
    noisy = {
        "runtime": "generic",
        "image": IMAGE,
        "args": ["plan", "-f", MARKUP],
        "skipModelInit": True,
        "extraArgs": [],
    }
    marked = {**model("marked"), "spec": {"source": f"https://models.example/{MARKUP}.gguf"}}
    await yard.apply(service("noisy", of="yard", **noisy), marked)
    await tab.goto(f"{home}#/object/InferenceService/default/noisy")
    await tab.locator(".log", has_text=MARKUP).wait_for()
    await tab.locator(".log-head", has_text="start 2").wait_for()
    await yard.kubectl("delete", "inferenceservice", "noisy", "--wait=false")
    await tab.goto(f"{home}#/object/Model/default/marked")
    await tab.locator("summary").click()
    await tab.get_by_label("Manifest", exact=True).get_by_text(MARKUP).first.wait_for()
    await tab.goto(f"{home}#/ask/InferenceService/default/yard")
    await tab.get_by_label("Question").fill(MARKUP)
    await tab.get_by_role("button", name="Ask").click()
    await tab.locator(".said.user", has_text=MARKUP).wait_for()
    await tab.locator(".figures", has_text="first token after").wait_for()
    assert await tab.evaluate("window.hacked") is None
    assert await tab.locator("main img").count() == 0
    await yard.kubectl("delete", "model", "marked", "--wait=false")


async def test_cold_starts_are_shown_as_bars(tab: Tab, picture: Any) -> None:
    await tab.get_by_role("link", name="Cold starts").click()
    bar = tab.locator("tr", has_text="yard-").first.locator(".starts-bar")
    await bar.wait_for()
    assert "loading" in str(
        await tab.locator("tr", has_text="yard-").last.locator(".starts-bar").get_attribute("aria-label")
    )
    await picture("starts")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_keeps_people_from_using_it(tab: Tab, scheme: Any) -> None:
    home = tab.url.partition("#")[0]
    await tab.emulate_media(color_scheme=scheme)
    shown = {
        "#/": "a.card",
        "#/object/InferenceService/default/lost-0": ".why",
        "#/ask": ".copyable",
        "#/starts": "table",
    }
    for view, sign in shown.items():
        await tab.goto(home + view)
        await tab.locator(sign).first.wait_for()
        assert await serious_faults(tab) == [], view
    await tab.goto(f"{home}#/")
    await tab.locator("a.card").first.wait_for()
    await tab.emulate_media(color_scheme="light")


async def test_it_fits_on_a_narrow_screen(tab: Tab) -> None:
    home = tab.url.partition("#")[0]
    await tab.set_viewport_size(NARROW)  # type: ignore[arg-type]
    shown = {
        "": "a.card",
        "object/InferenceService/default/lost-0": ".why",
        "ask": ".copyable",
        "starts": ".starts-bar",
    }
    for view, sign in shown.items():
        await tab.goto(f"{home}#/{view}")
        await tab.locator(sign).first.wait_for()
        assert await tab.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], view
        box = await tab.locator(sign).first.bounding_box()
        assert box
        assert box["x"] + box["width"] <= NARROW["width"], view
    await tab.set_viewport_size(WIDE)  # type: ignore[arg-type]


async def test_it_can_be_printed(tab: Tab) -> None:
    await tab.goto(f"{tab.url.partition('#')[0]}#/")
    await tab.locator("a.card").first.wait_for()
    await tab.emulate_media(media="print")
    style = "(name) => getComputedStyle(document.querySelector('.scroller'))[name]"
    shown = [await tab.evaluate(style, name) for name in ("overflowY", "printColorAdjust")]
    await tab.emulate_media(media="screen")
    assert shown == ["visible", "exact"], "no card is cut off, and states keep their colours"


async def test_a_question_that_was_not_answered_is_left_out_of_the_conversation(tab: Tab) -> None:
    await tab.goto(f"{tab.url.partition('#')[0]}#/ask/InferenceService/default/yard")
    refusal = json.dumps({"error": "no room for the context", "isLast": True})
    await tab.route("**/api/ask", lambda route: route.fulfill(body=refusal), times=1)
    await tab.get_by_label("Question").fill("Too long!")
    await tab.keyboard.press("Enter")
    await tab.locator(".figures .error", has_text="no room for the context").wait_for()
    async with tab.expect_request(lambda sent: sent.method == "POST") as asked:
        await tab.get_by_label("Question").fill("Which model are you?")
        await tab.keyboard.press("Enter")
    sent = (await asked.value).post_data_json
    assert sent["messages"] == [{"role": "user", "content": "Which model are you?"}]
    await tab.locator(".said.model", has_text="I am Yard").wait_for()


async def test_a_user_of_a_cluster_signs_in_and_gets_to_where_the_address_leads(
    browser: Browser, yard: Yard, tmp_path: Path
) -> None:
    cluster = yaml.safe_load(yard.folder.kubeconfig.read_text())["clusters"][0]["cluster"]
    authority, server, port = tmp_path / "ca.crt", urlsplit(cluster["server"]), free_ports(1)[0]
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    env = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
    home = f"http://localhost:{port}"
    async with (
        serving_in_cluster(partial(in_cluster_as, env, authority=authority), PageSettings(port=port, origins=(home,))),
        browser_of_stranger(browser) as user,
    ):
        await user.goto(f"{home}/#/starts")
        for token in ("invented", await yard.kubectl("create", "token", "default")):
            await user.get_by_label("Bearer token").fill(token.strip())
            await user.get_by_role("button", name="Sign in").click()
            await user.locator(".gate .error, #live.part").wait_for()
        assert user.url == f"{home}/#/starts"
        assert await user.locator("#live").inner_text() == "incomplete", "this account may see nothing"


async def test_a_change_moves_the_overview_which_can_be_used_without_a_mouse(
    tab: Tab, yard: Yard, picture: Any
) -> None:
    await yard.apply(*OTHERS)
    await tab.get_by_role("link", name="Overview").click()
    await tab.locator("a.card.resting", has_text="tools").wait_for()
    await tab.locator("a.card", has_text="qwen").filter(has_text="InferenceModel").wait_for()
    await tab.locator("a.card", has_text="mac-mini").wait_for()
    board = "document.querySelector('.board')"
    assert await tab.evaluate(f"{board}.scrollWidth <= {board}.clientWidth"), "all columns are in sight"
    await picture("overview")
    await yard.apply(service("yard", replicas=0))
    await tab.locator("a.card.resting", has_text="yard").wait_for()
    await tab.keyboard.press("/")
    await tab.keyboard.type("ManuallyScaled")
    await tab.locator("a.card").nth(1).wait_for(state="detached")
    await tab.keyboard.press("Escape")
    await tab.locator("a.card").focus()
    await tab.keyboard.press("ArrowDown")
    await tab.keyboard.press("Enter")
    await tab.locator(".why.resting").wait_for()
    await tab.keyboard.press("Escape")
    await tab.get_by_role("heading", name="Services").wait_for()


@asynccontextmanager
async def browser_of_stranger(browser: Browser) -> AsyncIterator[Tab]:
    """A window whose console may name the answer 401 of what it has opened."""
    context = await browser.new_context()
    try:
        yield await context.new_page()
    finally:
        await context.close()


@asynccontextmanager
async def refusing_server() -> AsyncIterator[str]:
    """A server that has no model."""

    async def refuse(_: web.BaseRequest) -> web.Response:
        return web.Response(status=404, text=MARKUP)

    runner = web.ServerRunner(web.Server(refuse))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
