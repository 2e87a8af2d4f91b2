"""The page under test: served for the real cluster, and a client that behaves like a browser, or does not."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Struct

from modelyard.kube.config import from_kubeconfig
from modelyard.page.server import PageSettings, serving_here

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

Json = dict[str, Any]
SECONDS = 60.0


class Page(Struct, frozen=True):
    """A page that is served."""

    address: str
    """As it was printed, with its token."""

    @property
    def origin(self) -> str:
        at = urlsplit(self.address)
        return f"{at.scheme}://{at.netloc}"


@asynccontextmanager
async def running_page(kubeconfig: Path, **settings: Any) -> AsyncIterator[Page]:
    """Serve a page for as long as the block lasts."""
    async with serving_here(from_kubeconfig([kubeconfig]), PageSettings(**settings)) as address:
        yield Page(address)


class Visitor:
    """A client of the page that keeps cookies."""

    def __init__(self, session: aiohttp.ClientSession, origin: str) -> None:
        self.http, self.origin = session, origin

    async def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        async with self.http.get(f"{self.origin}{path}", headers=headers) as answer:
            return answer.status, await answer.read()

    async def json(self, path: str) -> Any:
        status, body = await self.get(path)
        assert status == 200, body
        return msgspec.json.decode(body)

    async def post(self, path: str, body: Json, **headers: str) -> tuple[int, str]:
        async with self.http.post(
            f"{self.origin}{path}", json=body, headers={"Origin": self.origin, **headers}
        ) as answer:
            return answer.status, await answer.text()

    async def updates(self) -> AsyncIterator[Json]:
        """Follow the stream of changes."""
        async with self.http.get(f"{self.origin}/api/stream") as answer:
            assert answer.status == 200, await answer.text()
            while line := await answer.content.readline():
                if line.startswith(b"data: "):
                    yield msgspec.json.decode(line[6:])

    async def until(self, holds: Any) -> Json:
        """Follow the stream until something holds of all rows, by id, and return them."""
        rows: Json = {}
        async with asyncio.timeout(SECONDS):
            async for update in self.updates():
                rows |= {row["id"]: row for row in update.get("rows", ())}
                for gone in update.get("gone", ()):
                    rows.pop(gone, None)
                if holds(rows):
                    return rows
        raise AssertionError("the stream has ended")


@asynccontextmanager
async def visiting(origin: str, **headers: str) -> AsyncIterator[Visitor]:
    """Come as a new visitor."""
    # A limit of the size of a line would be one of the size of an update.
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.CookieJar(unsafe=True), headers=headers, read_bufsize=2**24
    ) as session:
        yield Visitor(session, origin)


@asynccontextmanager
async def entered(page: Page) -> AsyncIterator[Visitor]:
    """Come with the printed address."""
    async with visiting(page.origin) as visitor:
        at = urlsplit(page.address)
        status, _ = await visitor.get(f"{at.path}?{at.query}")
        assert status == 200
        yield visitor
