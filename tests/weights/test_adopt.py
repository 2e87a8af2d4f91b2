"""Weights that LLMKube left in the cache are used as they are, and nothing else is."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from modelyard.weights.types import Refresh
from tests.weights.ggufs import gguf

if TYPE_CHECKING:
    from tests.weights.conftest import Desk
    from tests.weights.fileserver import FileServer

NAMES = ["chat.gguf", "model.gguf"]
"""Under which a file may be there: that of the Model, as LLMKube calls it, and that of the URL."""


def leave(desk: Desk, name: str, content: bytes) -> None:
    desk.folder.mkdir(exist_ok=True)
    (desk.folder / name).write_bytes(content)


@pytest.mark.parametrize("name", NAMES)
async def test_a_file_that_is_whole_is_not_fetched_again(
    desk: Desk, server: FileServer, content: bytes, name: str
) -> None:
    leave(desk, name, content)
    before = (desk.folder / name).stat().st_ino
    choice = await desk.fetch(server.url, link="chat.gguf")
    assert (desk.folder / "chat.gguf").stat().st_ino == before
    assert (desk.folder / "chat.gguf").readlink().name == "model.gguf"
    assert choice.files[0].sha256 == hashlib.sha256(content).hexdigest()
    assert desk.names() == ["chat.gguf", "manifest.json", "model.gguf"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", ["cut short", "other bytes"])
async def test_a_file_that_is_not_what_upstream_has_is_replaced(
    desk: Desk, server: FileServer, content: bytes, name: str, wrong: str
) -> None:
    leave(desk, name, content[:-1] if wrong == "cut short" else gguf(bytes(len(content) - 24)))
    await desk.fetch(server.url, link="chat.gguf", sha256=hashlib.sha256(content).hexdigest())
    assert (desk.folder / "chat.gguf").read_bytes() == content
    assert (desk.folder / "chat.gguf").is_symlink()


async def test_who_reads_the_file_that_was_left_goes_on_reading_it(
    desk: Desk, server: FileServer, content: bytes
) -> None:
    leave(desk, "chat.gguf", b"old weights")
    with (desk.folder / "chat.gguf").open("rb") as reading:
        await desk.fetch(server.url, link="chat.gguf")
        assert reading.read() == b"old weights"


async def test_a_file_that_we_vouch_for_is_never_taken_for_a_newer_one_of_the_same_size(
    desk: Desk, server: FileServer, content: bytes
) -> None:
    await desk.fetch(server.url, link="chat.gguf")
    newer = gguf(bytes(len(content) - 24))
    server.replace(newer)
    await desk.fetch(server.url, link="chat.gguf", refresh=Refresh.ON_CHANGE)
    assert (desk.folder / "chat.gguf").read_bytes() == newer
