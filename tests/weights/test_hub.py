"""The real `huggingface_hub` against a server that speaks the hub's API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from modelyard.core.exitcodes import Code
from modelyard.weights.failures import FetchFailed
from modelyard.weights.types import Refresh
from tests.net.certificates import issue, served
from tests.weights.fileserver import serving
from tests.weights.ggufs import gguf
from tests.weights.hubserver import COMMIT, REPO, TOKEN, HubServer, hub_server
from tests.weights.program import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.weights.conftest import Desk

SPLIT = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf")


@pytest.fixture
async def hub(desk: Desk) -> AsyncIterator[HubServer]:
    async with hub_server() as running:
        desk.within(hf_endpoint=running.endpoint)
        running.files = {"README.md": b"read me", "m.gguf": gguf(b"weights" * 1000)}
        yield running


async def refused(desk: Desk, source: str = REPO, **more: object) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        await desk.fetch(source, **more)
    return caught.value


@pytest.mark.parametrize("source", [REPO, f"hf://{REPO}", f"hf://{REPO}@main/m.gguf", f"https://huggingface.co/{REPO}"])
async def test_the_model_of_a_repository_is_fetched(desk: Desk, hub: HubServer, source: str) -> None:
    await desk.fetch(source)
    assert (desk.folder / "m.gguf").read_bytes() == hub.files["m.gguf"]
    assert desk.names() == ["m.gguf", "manifest.json"]


async def test_split_files_come_together_and_the_first_is_the_one_to_serve(desk: Desk, hub: HubServer) -> None:
    hub.files = {SPLIT[1]: gguf(b"two"), SPLIT[0]: gguf(b"one")}
    got = await desk.fetch(REPO)
    assert [file.name for file in got.files] == list(SPLIT)


async def test_picked_files_are_fetched_in_that_order(desk: Desk, hub: HubServer) -> None:
    hub.files["sub/config.json"] = b"{}"
    got = await desk.fetch(REPO, files=("sub/config.json", "README.md"))
    assert [file.name for file in got.files] == ["sub/config.json", "README.md"]
    assert (desk.folder / "sub" / "config.json").read_bytes() == b"{}"


async def test_several_models_are_refused_with_their_names(desk: Desk, hub: HubServer) -> None:
    hub.files["n.gguf"] = gguf(b"other")
    failure = await refused(desk)
    assert (failure.code, "m.gguf, n.gguf" in failure.remedy) == (Code.REFUSED, True)


async def test_a_private_repository_needs_the_token_and_the_cdn_never_sees_it(desk: Desk, hub: HubServer) -> None:
    hub.private = True
    assert (await refused(desk)).code is Code.AUTH
    desk.within(hf_token=TOKEN)
    await desk.fetch(REPO)
    assert hub.cdn_headers
    assert all("Authorization" not in headers for headers in hub.cdn_headers)


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        ((403, "GatedRepo"), Code.AUTH),
        ((404, "RepoNotFound"), Code.NOT_FOUND),
        ((404, "RevisionNotFound"), Code.NOT_FOUND),
        ((400, "Bad"), Code.BAD_SOURCE),
        ((503, "Busy"), Code.TRANSIENT),
    ],
)
async def test_each_refusal_of_the_hub_has_its_code(
    desk: Desk, hub: HubServer, trouble: tuple[int, str], code: Code
) -> None:
    hub.trouble = trouble
    assert (await refused(desk)).code is code


@pytest.mark.parametrize("answer", [b"<html>log in</html>", b"[]", b"{}"])
async def test_a_hub_that_does_not_answer_like_one_is_told(desk: Desk, answer: bytes) -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(body=answer)

    async with serving(page) as port:
        desk.within(hf_endpoint=f"http://127.0.0.1:{port}")
        refusal = await refused(desk)
    assert (refusal.code, "HF_ENDPOINT" in refusal.remedy) == (Code.BAD_SOURCE, True)


@pytest.mark.parametrize(
    "odd",
    [
        {"size": "7"},
        {"size": -7},
        {"blobId": {"a": 1}},
        {"rfilename": 7},
        {"lfs": {"sha256": 7, "size": 7, "pointerSize": 7}},
        {"lfs": {"sha256": "../../elsewhere", "size": 7, "pointerSize": 7}},
    ],
)
async def test_a_hub_that_lists_nonsense_is_told(desk: Desk, odd: dict[str, Any]) -> None:
    async def listing(request: web.Request) -> web.StreamResponse:
        return web.json_response({"id": REPO, "sha": COMMIT, "siblings": [{"rfilename": "m.gguf", "size": 7, **odd}]})

    async with serving(listing) as port:
        desk.within(hf_endpoint=f"http://127.0.0.1:{port}")
        assert (await refused(desk)).message == "the hub gives an answer that cannot be read"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("../m.gguf", Code.BAD_SOURCE),
        ("\ud800.gguf", Code.BAD_SOURCE),
        ("\x9b2J.gguf", Code.BAD_SOURCE),
        (f"{'a' * 300}.gguf", Code.REFUSED),
    ],
)
async def test_a_name_that_no_folder_can_hold_is_refused(desk: Desk, hub: HubServer, name: str, code: Code) -> None:
    hub.files = {name: b"weights"}
    assert (await refused(desk)).code is code
    assert desk.names() == []


async def test_a_screenshot_of_a_mac_is_no_reason_to_refuse_a_repository(desk: Desk, hub: HubServer) -> None:
    hub.files = {"config.json": b"{}", "Screenshot at 9.41.00\u202fAM.png": b"picture"}
    await desk.fetch(REPO, everything=True)
    assert desk.names() == ["Screenshot at 9.41.00\u202fAM.png", "config.json", "manifest.json"]


@pytest.mark.parametrize("sent", [1, 100_000])
async def test_chunks_that_are_fewer_or_more_than_the_hub_said_are_not_taken(
    desk: Desk, hub: HubServer, sent: int
) -> None:
    async def chunked(request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/api/"):
            return await hub.handle(request)
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"x" * sent)
        await response.write_eof()
        return response

    hub.files = {"config.json": b"ten bytes!"}
    async with serving(chunked) as port:
        desk.within(hf_endpoint=f"http://127.0.0.1:{port}")
        assert (await refused(desk, files=("config.json",))).code is Code.TRANSIENT
    assert "manifest.json" not in desk.names()


async def test_bytes_that_do_not_match_the_hash_of_the_hub_are_dropped(desk: Desk, hub: HubServer) -> None:
    hub.lies["m.gguf"] = "0" * 64
    assert (await refused(desk)).code is Code.CHECKSUM
    assert desk.names() == []


async def test_a_hash_that_the_hub_contradicts_is_refused_before_the_download(desk: Desk, hub: HubServer) -> None:
    assert (await refused(desk, sha256="1" * 64)).code is Code.CHECKSUM
    assert hub.cdn_headers == []


async def test_one_hash_cannot_vouch_for_two_files(desk: Desk, hub: HubServer) -> None:
    hub.files = {SPLIT[1]: gguf(b"two"), SPLIT[0]: gguf(b"one")}
    assert (await refused(desk, sha256="1" * 64)).code is Code.REFUSED


async def test_on_change_asks_the_hub_and_fetches_only_news(desk: Desk, hub: HubServer) -> None:
    await desk.fetch(REPO)
    await desk.fetch(REPO, refresh=Refresh.ON_CHANGE)
    assert (hub.api_calls, len(hub.cdn_headers)) == (2, 1)
    hub.files["m.gguf"] = gguf(b"changed" * 1000)
    await desk.fetch(REPO, refresh=Refresh.ON_CHANGE)
    assert (desk.folder / "m.gguf").read_bytes() == hub.files["m.gguf"]


async def test_an_absent_hub_is_transient(desk: Desk) -> None:
    desk.within(hf_endpoint="http://127.0.0.1:1")
    assert (await refused(desk)).code is Code.TRANSIENT


async def test_the_program_takes_endpoint_and_token_from_the_environment(hub: HubServer, tmp_path: Path) -> None:
    hub.private = True
    done = await run(REPO, "--to", str(tmp_path), HF_ENDPOINT=hub.endpoint, HF_TOKEN=TOKEN)
    assert (done.code, done.result["file"]) == (0, "m.gguf")
    assert "hidden" not in done.text + (tmp_path / "manifest.json").read_text()


async def test_a_list_that_comes_by_http_where_https_was_asked_for_is_not_believed(
    desk: Desk, hub: HubServer, tmp_path: Path
) -> None:
    async def down(request: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect(f"{hub.endpoint}{request.path_qs}")

    authority = issue("authority", authority=True)
    (tmp_path / "ca.pem").write_text(authority.pem)
    async with serving(down, served(tmp_path, issue("localhost", authority))) as port:
        desk.within(hf_endpoint=f"https://localhost:{port}")
        found = await refused(desk, ca=tmp_path / "ca.pem")
    assert (found.code, found.message) == (Code.REFUSED, "the hub redirects from https to http")
