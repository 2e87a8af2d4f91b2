"""The second name for the file to serve."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from modelyard.core.exitcodes import Code
from modelyard.weights.failures import FetchFailed
from modelyard.weights.types import Refresh
from tests.weights.fileserver import status
from tests.weights.ggufs import gguf
from tests.weights.hubserver import REPO, HubServer, hub_server
from tests.weights.program import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.weights.conftest import Desk
    from tests.weights.fileserver import FileServer

SPLIT = {"m-00001-of-00002.gguf": gguf(b"one"), "m-00002-of-00002.gguf": gguf(b"two")}


@pytest.fixture
async def hub(desk: Desk) -> AsyncIterator[HubServer]:
    async with hub_server() as running:
        desk.within(hf_endpoint=running.endpoint)
        running.files = {"README.md": b"read me", "m.gguf": gguf(b"weights")}
        yield running


async def refused(desk: Desk, source: str, **more: object) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        await desk.fetch(source, **more)
    assert caught.value.code is Code.REFUSED
    return caught.value


def target(desk: Desk, link: str) -> str:
    return str((desk.folder / link).readlink())


async def test_the_link_leads_to_the_first_file_by_a_relative_path(desk: Desk, hub: HubServer) -> None:
    hub.files = {"q4/m.gguf": gguf(b"weights"), "mmproj.json": b"{}"}
    await desk.fetch(REPO, files=("q4/m.gguf", "mmproj.json"), link="model.gguf")
    assert target(desk, "model.gguf") == "q4/m.gguf"
    assert (desk.folder / "model.gguf").read_bytes() == gguf(b"weights")


async def test_a_link_is_added_to_what_is_there_already(desk: Desk, server: FileServer) -> None:
    await desk.fetch(server.url)
    asked = len(server.requests)
    await desk.fetch(server.url, link="a.gguf")
    await desk.fetch(server.url, link="b.gguf")
    assert (target(desk, "a.gguf"), target(desk, "b.gguf")) == ("model.gguf", "model.gguf")
    assert len(server.requests) == asked


async def test_a_link_that_leads_elsewhere_is_replaced(desk: Desk, server: FileServer) -> None:
    desk.folder.mkdir()
    for wrong in ("absent", "/etc/passwd"):
        (desk.folder / "a.gguf").unlink(missing_ok=True)
        (desk.folder / "a.gguf").symlink_to(wrong)
        await desk.fetch(server.url, link="a.gguf")
        assert target(desk, "a.gguf") == "model.gguf"
    assert desk.names() == ["a.gguf", "manifest.json", "model.gguf"]


async def test_a_link_follows_a_file_that_upstream_calls_otherwise_now(desk: Desk, hub: HubServer) -> None:
    await desk.fetch(REPO, link="model.gguf")
    hub.files = {"n.gguf": gguf(b"other")}
    await desk.fetch(REPO, link="model.gguf", refresh=Refresh.ON_CHANGE)
    assert target(desk, "model.gguf") == "n.gguf"
    hub.files = {"model.gguf": gguf(b"third")}
    await desk.fetch(REPO, link="model.gguf", refresh=Refresh.ON_CHANGE)
    assert not (desk.folder / "model.gguf").is_symlink()
    assert desk.names() == ["manifest.json", "model.gguf"]
    hub.files = {"m.gguf": gguf(b"fourth")}
    await desk.fetch(REPO, link="model.gguf", refresh=Refresh.ON_CHANGE)
    assert target(desk, "model.gguf") == "m.gguf"


async def test_a_link_is_made_while_upstream_is_away(desk: Desk, server: FileServer) -> None:
    await desk.fetch(server.url)
    server.otherwise = status(503)
    await desk.fetch(server.url, link="a.gguf", refresh=Refresh.ON_CHANGE)
    assert target(desk, "a.gguf") == "model.gguf"


async def test_a_file_that_has_the_name_already_needs_no_link(desk: Desk, server: FileServer) -> None:
    for _ in range(2):
        await desk.fetch(server.url, link="model.gguf")
        assert not (desk.folder / "model.gguf").is_symlink()


async def test_a_link_never_takes_the_place_of_a_file_of_the_model(desk: Desk, hub: HubServer) -> None:
    await refused(desk, REPO, files=("m.gguf", "README.md"), link="README.md")
    assert hub.cdn_headers == []
    await desk.fetch(REPO, files=("README.md",))
    assert "name of a file" in (await refused(desk, REPO, link="README.md")).message
    assert (desk.folder / "README.md").read_bytes() == b"read me"


async def test_a_file_never_takes_the_place_of_a_link_of_another_order(desk: Desk, hub: HubServer) -> None:
    await desk.fetch(REPO, link="README.md")
    assert "README.md is a link" in (await refused(desk, REPO, files=("README.md",))).message
    assert (desk.folder / "README.md").read_bytes() == gguf(b"weights")


async def test_split_files_are_not_linked_but_named(desk: Desk, hub: HubServer) -> None:
    hub.files = SPLIT
    assert (await refused(desk, REPO, link="model.gguf")).remedy.endswith(f"hf://{REPO}/m-00001-of-00002.gguf")
    assert hub.cdn_headers == []
    named = await refused(desk, f"hf://{REPO}/m-00002-of-00002.gguf", link="model.gguf")
    assert named.remedy == "leave out --link, and serve m-00001-of-00002.gguf"
    await desk.fetch(REPO)
    await refused(desk, REPO, link="model.gguf")


@pytest.mark.parametrize("name", ["../up", "a/b", "..", "manifest.json", ".lock", "x.partial", "a\\b", "a\nb"])
async def test_a_name_that_is_not_plain_is_refused_before_anything_is_asked(
    desk: Desk, server: FileServer, name: str
) -> None:
    assert "is no plain name" in (await refused(desk, server.url, link=name)).message
    assert server.requests == []


async def test_a_folder_is_not_linked(desk: Desk, hub: HubServer) -> None:
    await refused(desk, REPO, everything=True, link="model.gguf")
    assert hub.api_calls == 0


async def test_what_is_whole_and_linked_needs_no_right_to_write(server: FileServer, tmp_path: Path) -> None:
    words = (server.url, "--to", str(tmp_path / "v"), "--link", "a.gguf")
    assert (await run(*words)).code == 0
    read_only = ("unshare", "-rm", "sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"')
    again = await run(*words, before=(*read_only, os.fspath(tmp_path / "v")))
    assert again.code == 0
