"""The page of one machine is started by its first visitor."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from modelyard.local.up.page import Page

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS = 90.0


async def test_a_page_that_cannot_be_started_is_tried_again_and_ends_nothing_else(tmp_path: Path) -> None:
    page, said = Page(tmp_path, tmp_path / "kubeconfig"), list[str]()
    running = asyncio.create_task(page.run(said.append))
    where = urlsplit(page.url)
    _, visitor = await asyncio.open_connection(where.hostname, where.port)
    try:
        async with asyncio.timeout(_SECONDS):
            while not said:
                await asyncio.sleep(0.01)
            assert said[0].startswith("page cannot be started: [Errno 2]"), "there is no folder for its log"
            (tmp_path / "logs").mkdir()
            while not (tmp_path / "logs" / "page.log").exists():
                await asyncio.sleep(0.01)
    finally:
        visitor.close()
        running.cancel()
        await asyncio.wait([running])
