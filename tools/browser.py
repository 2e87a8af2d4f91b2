"""A real browser without a screen, for tests of the page and its figures: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from playwright.async_api import async_playwright

from tools.setup import BROWSERS, NO_BROWSER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser

_ARGUMENTS: Final = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-sync",
    "--headless",
    "--no-first-run",
)


class NoBrowser(Exception):
    """There is no browser; the message says how to install one."""


def browser_program() -> str:
    """Return the browser that this machine has, or that the variable CHROMIUM names."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), "")
    if not found:
        raise NoBrowser(NO_BROWSER)
    return found


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """Run a browser while the block lasts."""
    # Its sandbox needs rights that root in a container does not have.
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_program(), args=[*_ARGUMENTS, *sandbox])
        try:
            yield browser
        finally:
            await browser.close()
