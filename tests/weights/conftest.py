"""What the tests of `weights/` share."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from modelyard.weights.fetch import Fetched, fetch
from modelyard.weights.settings import FetchSettings
from modelyard.weights.types import FetchRequest, RetryPolicy
from tests.weights.fileserver import FileServer, file_server
from tests.weights.ggufs import gguf

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelyard.weights.manifest import Choice

HASTY = RetryPolicy(attempts=4, first_delay=0.001, longest_delay=0.05, connect_seconds=5.0, idle_seconds=2.0)


class Desk:
    """Fetches into one folder, in this process, without patience."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[dict[str, Any]] = []
        self.settings = FetchSettings()

    async def fetch(self, source: str, **more: Any) -> Choice:
        return (await self.fetched(source, **more)).choice

    async def fetched(self, source: str, **more: Any) -> Fetched:
        return await fetch(FetchRequest(source, self.folder, **more), self.settings, HASTY, self.lines.append)

    def within(self, **settings: str) -> None:
        self.settings = msgspec.structs.replace(self.settings, **settings)

    def names(self) -> list[str]:
        """What is there, besides the lock."""
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return sorted(str(path) for path in found if path.name != ".lock")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "weights")


@pytest.fixture
def content() -> bytes:
    return gguf(random.Random(7).randbytes(300_000))


@pytest.fixture
async def server(content: bytes) -> AsyncIterator[FileServer]:
    async with file_server(content) as running:
        yield running
