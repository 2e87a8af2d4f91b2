"""Windows of a real browser. Their consoles must stay empty, and what they show must be fit for all users."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from axe_playwright_python.async_playwright import Axe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, Page

SECONDS = 60.0


@asynccontextmanager
async def opened(browser: Browser, **options: Any) -> AsyncIterator[Page]:
    """Open a window of its own; at the end its console must have stayed empty."""
    complaints: list[str] = []
    context = await browser.new_context(**options)
    context.set_default_timeout(SECONDS * 1000)
    page = await context.new_page()
    page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        yield page
    finally:
        await context.close()
    assert not complaints, "\n".join(complaints)


async def serious_faults(page: Page) -> list[str]:
    """Return what keeps people with disabilities from using the page as it is shown."""
    found = await Axe().run(page)
    return [
        f"{fault['id']}: {node['html']}"
        for fault in found.response["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]
