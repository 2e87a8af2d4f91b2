"""Requests for different files of one source, into one folder."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from modelyard.core.exitcodes import Code
from modelyard.weights.failures import FetchFailed
from modelyard.weights.types import Refresh
from tests.weights.ggufs import gguf
from tests.weights.hubserver import REPO, HubServer, hub_server
from tests.weights.program import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.weights.conftest import Desk

A, B, C = ("a.json",), ("b.json",), ("c.json",)


@pytest.fixture
async def hub(desk: Desk) -> AsyncIterator[HubServer]:
    async with hub_server() as running:
        desk.within(hf_endpoint=running.endpoint)
        running.files = {"a.json": b"a", "b.json": b"b", "c.json": b"c", "m.gguf": gguf(b"weights")}
        yield running


def fetched(hub: HubServer) -> int:
    return len(hub.cdn_headers)


async def test_another_choice_completes_the_folder_and_takes_nothing_away(desk: Desk, hub: HubServer) -> None:
    await desk.fetch(REPO)
    await desk.fetch(REPO, files=A)
    assert desk.names() == ["a.json", "m.gguf", "manifest.json"]
    await desk.fetch(REPO)
    await desk.fetch(REPO, files=A)
    assert (hub.api_calls, fetched(hub)) == (2, 2)


async def test_what_another_choice_brought_is_not_fetched_again(desk: Desk, hub: HubServer) -> None:
    await desk.fetch(REPO, files=A + B)
    got = await desk.fetch(REPO, everything=True)
    assert [file.name for file in got.files] == ["a.json", "b.json", "c.json", "m.gguf"]
    assert fetched(hub) == 4
    assert (desk.lines[-1]["bytes"], desk.lines[-1]["total"]) == (34, 34)
    await desk.fetch(REPO)
    assert fetched(hub) == 4


async def test_one_file_is_not_taken_for_the_whole(desk: Desk, hub: HubServer) -> None:
    await desk.fetch(REPO)
    await desk.fetch(REPO, everything=True)
    assert desk.names() == ["a.json", "b.json", "c.json", "m.gguf", "manifest.json"]


async def test_what_rotted_is_not_taken_over_when_asked_to_look(desk: Desk, hub: HubServer) -> None:
    await desk.fetch(REPO, files=A)
    (desk.folder / "a.json").write_bytes(b"x")
    await desk.fetch(REPO, files=A + B, verify=True)
    assert (desk.folder / "a.json").read_bytes() == b"a"


async def test_a_choice_that_lost_a_file_to_a_newer_version_is_fetched_as_one_again(desk: Desk, hub: HubServer) -> None:
    await desk.fetch(REPO, files=A + B)
    await desk.fetch(REPO, files=B + C)
    hub.files |= {"a.json": b"A", "b.json": b"B"}
    await desk.fetch(REPO, files=B + C, refresh=Refresh.ON_CHANGE)
    assert (desk.folder / "a.json").read_bytes() == b"a"
    await desk.fetch(REPO, files=A + B)
    assert (desk.folder / "a.json").read_bytes() == b"A"
    assert fetched(hub) == 5


async def test_a_file_goes_when_the_last_choice_that_has_it_does(desk: Desk, hub: HubServer) -> None:
    await desk.fetch(REPO, everything=True)
    await desk.fetch(REPO, files=C)
    del hub.files["c.json"], hub.files["b.json"]
    await desk.fetch(REPO, everything=True, refresh=Refresh.ON_CHANGE)
    assert desk.names() == ["a.json", "c.json", "m.gguf", "manifest.json"]


async def test_all_leaves_nothing_to_pick(desk: Desk, hub: HubServer) -> None:
    with pytest.raises(FetchFailed) as caught:
        await desk.fetch(REPO, files=A, everything=True)
    assert (caught.value.code, hub.api_calls) == (Code.REFUSED, 0)


async def test_the_program_says_what_it_did_with_several_files(hub: HubServer, tmp_path: Path) -> None:
    done = await run(REPO, "--to", str(tmp_path), "--all", HF_ENDPOINT=hub.endpoint)
    assert done.result == {
        "result": "ok",
        "message": f"4 file(s) of {REPO}",
        "remedy": "",
        "bytes": 34,
        "sha256": "",
        "file": "a.json",
        "etag": "",
        "kept": "",
    }


async def test_files_that_have_the_checksums_of_the_request_are_taken(desk: Desk, hub: HubServer) -> None:
    sums = {"a.json": sha256(b"a"), "m.gguf": sha256(hub.files["m.gguf"])}
    got = await desk.fetch(REPO, everything=True, checksums=sums)
    assert {file.name: file.sha256 for file in got.files}.items() >= sums.items()
    await desk.fetch(REPO, everything=True, checksums=sums)
    assert fetched(hub) == 4


async def test_a_file_with_another_checksum_is_not_kept(desk: Desk, hub: HubServer) -> None:
    with pytest.raises(FetchFailed) as refused:
        await desk.fetch(REPO, everything=True, checksums={"a.json": "1" * 64})
    assert refused.value.code is Code.CHECKSUM
    assert "manifest.json" not in desk.names()


async def test_a_checksum_that_the_hub_contradicts_is_refused_before_the_download(desk: Desk, hub: HubServer) -> None:
    with pytest.raises(FetchFailed) as refused:
        await desk.fetch(REPO, everything=True, checksums={"m.gguf": "1" * 64})
    assert (refused.value.code, fetched(hub)) == (Code.CHECKSUM, 0)


async def test_a_checksum_of_a_file_that_is_not_fetched_is_refused(desk: Desk, hub: HubServer) -> None:
    with pytest.raises(FetchFailed, match="absent") as refused:
        await desk.fetch(REPO, everything=True, checksums={"absent.json": "1" * 64})
    assert (refused.value.code, fetched(hub)) == (Code.REFUSED, 0)


async def test_weights_that_are_there_are_fetched_again_for_another_checksum(desk: Desk, hub: HubServer) -> None:
    await desk.fetch(REPO, everything=True)
    hub.files["a.json"] = b"new"
    await desk.fetch(REPO, everything=True, checksums={"a.json": sha256(b"new")})
    assert (desk.folder / "a.json").read_bytes() == b"new"


async def test_the_program_takes_checksums(hub: HubServer, tmp_path: Path) -> None:
    args = (REPO, "--to", str(tmp_path / "w"), "--all", "--checksum")
    wrong = await run(*args, f"a.json={'1' * 64}", HF_ENDPOINT=hub.endpoint)
    assert (wrong.code, wrong.result["result"]) == (Code.CHECKSUM, "checksum")
    assert (await run(*args, "a.json=abc", HF_ENDPOINT=hub.endpoint)).code == 2


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
