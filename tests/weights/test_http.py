"""Fetching over HTTP from servers that cut, lie, change and refuse."""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from modelyard.core.exitcodes import Code
from modelyard.core.source import cache_key
from modelyard.weights import manifest
from modelyard.weights.failures import FetchFailed
from modelyard.weights.http import seconds_asked
from modelyard.weights.manifest import Choice, Kept, Manifest
from modelyard.weights.types import Refresh
from tests.net.certificates import issue, served
from tests.weights.conftest import HASTY, Desk
from tests.weights.fileserver import FileServer, serving, status
from tests.weights.ggufs import gguf

if TYPE_CHECKING:
    from pathlib import Path


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def ranges(server: FileServer) -> list[str]:
    return [request.headers.get("Range", "") for request in server.requests]


async def failure(desk: Desk, source: str, **more: object) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        await desk.fetch(source, **more)
    return caught.value


async def test_a_file_arrives_whole_with_a_manifest(desk: Desk, server: FileServer, content: bytes) -> None:
    got = await desk.fetch(server.url)
    assert got == Choice((Kept("model.gguf", len(content), sha256(content), server.etag),))
    assert manifest.load(desk.folder) == Manifest(server.url, cache_key(server.url), (got,))
    assert (desk.folder / "model.gguf").read_bytes() == content
    assert desk.names() == ["manifest.json", "model.gguf"]
    assert json.loads((desk.folder / "manifest.json").read_text())["choices"][0]["files"][0]["sha256"] == sha256(
        content
    )


@pytest.mark.parametrize("sent", [0, 1, 65_535, 65_536, 299_999])
async def test_a_cut_connection_is_resumed_where_it_broke(desk: Desk, server: FileServer, sent: int) -> None:
    server.script = [server.good, server.cut(sent)]
    await desk.fetch(server.url, sha256=sha256(server.content))
    assert (desk.folder / "model.gguf").read_bytes() == server.content
    # An end of the connection may overtake bytes in the client's buffer, but never by more than was sent.
    resumed = ranges(server)[2]
    assert int(resumed.removeprefix("bytes=").removesuffix("-") or 0) <= sent


async def test_many_cuts_are_no_failure_while_bytes_come(desk: Desk, server: FileServer) -> None:
    server.script = [server.good, *(server.cut(20_000) for _ in range(3 * HASTY.attempts))]
    await desk.fetch(server.url)
    assert (desk.folder / "model.gguf").read_bytes() == server.content


async def test_a_server_without_ranges_is_asked_from_the_start_again(desk: Desk, server: FileServer) -> None:
    server.script, server.otherwise = [server.good, server.cut(150_000)], server.no_ranges
    await desk.fetch(server.url)
    assert (desk.folder / "model.gguf").read_bytes() == server.content


async def test_without_an_etag_nothing_is_resumed_and_a_bad_line_is_given_up(desk: Desk, server: FileServer) -> None:
    server.etag = ""
    server.script = [server.good, server.cut(150_000)]
    await desk.fetch(server.url)
    assert ranges(server) == ["", "", ""]
    assert (desk.folder / "model.gguf").read_bytes() == server.content
    server.script = [server.good, *(server.cut(sent) for sent in (90_000, 50_000, 60_000, 70_000))]
    assert (await failure(desk, f"{server.url}?again")).code is Code.TRANSIENT
    assert desk.names() == ["manifest.json", "model.gguf"]


async def test_without_an_etag_the_time_of_the_file_tells_a_change(desk: Desk, server: FileServer) -> None:
    async def dated(request: web.Request) -> web.StreamResponse:
        return web.Response(body=server.content, headers={"Last-Modified": server.etag})

    server.otherwise, server.etag = dated, "Sun, 15 Nov 2026 07:00:00 GMT"
    await desk.fetch(server.url)
    await desk.fetch(server.url, refresh=Refresh.ON_CHANGE)
    assert len(server.requests) == 3
    server.content, server.etag = gguf(bytes(len(server.content) - 24)), "Sun, 15 Nov 2026 08:00:00 GMT"
    await desk.fetch(server.url, refresh=Refresh.ON_CHANGE)
    assert (desk.folder / "model.gguf").read_bytes() == server.content


async def test_a_file_that_changes_on_the_way_is_never_a_mixture(desk: Desk, server: FileServer) -> None:
    async def change(request: web.Request) -> web.StreamResponse:
        answer = await server.cut(100_000)(request)
        server.replace(gguf(b"new" * 100_000))
        return answer

    server.script = [server.good, change]
    got = await desk.fetch(server.url)
    assert (desk.folder / "model.gguf").read_bytes() == gguf(b"new" * 100_000)
    assert got.files[0].etag == server.etag


async def test_another_part_than_asked_for_is_not_taken(desk: Desk, server: FileServer) -> None:
    async def wrong_part(request: web.Request) -> web.StreamResponse:
        headers = {"ETag": server.etag, "Content-Range": f"bytes 7-{len(server.content) - 1}/{len(server.content)}"}
        return web.Response(status=206, body=server.content[7:], headers=headers)

    server.script = [server.good, server.cut(100_000), wrong_part]
    await desk.fetch(server.url)
    assert (desk.folder / "model.gguf").read_bytes() == server.content


async def test_a_part_with_an_absurd_place_is_not_taken(desk: Desk, server: FileServer) -> None:
    absurd = status(206, Content_Range=f"bytes {'9' * 5000}-1/2", ETag=server.etag)
    server.script = [server.good, server.cut(1000), absurd]
    await desk.fetch(server.url)
    assert (desk.folder / "model.gguf").read_bytes() == server.content


async def test_a_refused_range_starts_over(desk: Desk, server: FileServer) -> None:
    server.script = [server.good, server.cut(100_000), status(416)]
    await desk.fetch(server.url)
    assert (desk.folder / "model.gguf").read_bytes() == server.content


async def test_a_server_that_never_sends_all_it_promised_is_given_up(desk: Desk, server: FileServer) -> None:
    server.script, server.otherwise = [server.good], server.cut(0)
    assert (await failure(desk, server.url)).code is Code.TRANSIENT
    assert len(server.requests) == 1 + HASTY.attempts
    assert not (desk.folder / "model.gguf").exists()


async def test_a_server_that_falls_silent_is_left_and_asked_again(desk: Desk, server: FileServer) -> None:
    server.script = [server.good, server.held(100_000, asyncio.Event())]
    await desk.fetch(server.url)
    assert ranges(server)[2] == "bytes=100000-"
    assert (desk.folder / "model.gguf").read_bytes() == server.content


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (401, Code.AUTH),
        (403, Code.AUTH),
        (404, Code.NOT_FOUND),
        (410, Code.NOT_FOUND),
        (400, Code.BAD_SOURCE),
        (204, Code.BAD_SOURCE),
    ],
)
async def test_a_refusal_is_final_and_has_its_own_code(desk: Desk, server: FileServer, answer: int, code: Code) -> None:
    server.otherwise = status(answer)
    refused = await failure(desk, server.url)
    assert refused.code is code
    assert str(answer) in refused.message
    assert len(server.requests) == 1
    assert desk.names() == []


@pytest.mark.parametrize("answer", [429, 500, 502, 503])
async def test_a_server_in_trouble_is_asked_again_but_not_for_ever(desk: Desk, server: FileServer, answer: int) -> None:
    server.script = [status(answer, Retry_After="1")] * (HASTY.attempts - 1)
    await desk.fetch(server.url)
    server.otherwise = status(answer)
    assert (await failure(desk, server.url + "?other")).code is Code.TRANSIENT
    assert len(server.requests) == HASTY.attempts - 1 + 2 + HASTY.attempts


async def test_a_token_is_not_carried_to_another_host(desk: Desk, server: FileServer) -> None:
    async def elsewhere(request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"].startswith("Basic ")
        raise web.HTTPFound(server.url)

    async with serving(elsewhere) as port:
        await desk.fetch(f"http://me:password@127.0.0.1:{port}/model.gguf")
    assert all("Authorization" not in request.headers for request in server.requests)
    assert "password" not in (desk.folder / "manifest.json").read_text()


async def test_credentials_stay_with_their_host_whatever_a_redirect_says(desk: Desk, server: FileServer) -> None:
    server.script = [status(302, Location=f"http://other:one@127.0.0.1:{server.port}/else.gguf") for _ in range(2)]
    server.script.insert(1, server.good)
    await desk.fetch(server.url.replace("//", "//me:password@"))
    assert {request.headers["Authorization"] for request in server.requests} == {"Basic bWU6cGFzc3dvcmQ="}


async def test_passwords_that_lie_about_on_the_machine_are_not_used(
    desk: Desk, server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hidden\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    await desk.fetch(server.url)
    assert all("Authorization" not in request.headers for request in server.requests)


@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_a_proxy_of_the_environment_is_used_unless_the_host_is_excepted(
    desk: Desk, server: FileServer, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("http_proxy", f"{scheme}me:hidden@127.0.0.1:{server.port}")
    await desk.fetch("http://models.example/model.gguf")
    assert {request.headers["Host"] for request in server.requests} == {"models.example"}
    assert {request.headers["Proxy-Authorization"] for request in server.requests} == {"Basic bWU6aGlkZGVu"}
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    await desk.fetch(server.url)
    assert "Proxy-Authorization" not in server.requests[-1].headers


async def test_a_redirect_from_https_to_http_is_refused(desk: Desk, server: FileServer, tmp_path: Path) -> None:
    async def down(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(server.url)

    authority = issue("authority", authority=True)
    (tmp_path / "ca.pem").write_text(authority.pem)
    async with serving(down, served(tmp_path, issue("localhost", authority))) as port:
        url = f"https://localhost:{port}/model.gguf"
        assert (await failure(desk, url)).message == "the certificate of localhost is not trusted"
        assert "from https to http" in (await failure(desk, url, ca=tmp_path / "ca.pem")).message
    assert server.requests == []


async def test_a_way_that_leaves_https_is_refused_even_if_it_comes_back(
    desk: Desk, server: FileServer, tmp_path: Path
) -> None:
    authority = issue("authority", authority=True)
    (tmp_path / "ca.pem").write_text(authority.pem)

    async def down_and_up(request: web.Request) -> web.StreamResponse:
        if request.path == "/up.gguf":
            return web.Response(body=gguf(b"reached by way of http"))
        raise web.HTTPFound(server.url)

    async with serving(down_and_up, served(tmp_path, issue("localhost", authority))) as port:
        server.otherwise = status(302, Location=f"https://localhost:{port}/up.gguf")
        refused = await failure(desk, f"https://localhost:{port}/model.gguf", ca=tmp_path / "ca.pem")
    assert "from https to http" in refused.message


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://[bad/", "http://xn--a/", "/model.gguf"])
async def test_a_redirect_that_leads_nowhere_is_not_tried_again(desk: Desk, server: FileServer, location: str) -> None:
    server.otherwise = status(302, Location=location)
    refused = await failure(desk, server.url)
    assert refused.code is Code.BAD_SOURCE
    assert "leads nowhere" in refused.message


@pytest.mark.parametrize(
    "page", [b"\n<!DOCTYPE html><title>Log in", b"version https://git-lfs.github.com/spec/v1\noid"]
)
async def test_a_page_is_not_taken_for_the_weights(desk: Desk, server: FileServer, page: bytes) -> None:
    weights = server.content
    server.replace(page)
    refused = await failure(desk, server.url)
    assert (refused.code, refused.message) == (Code.BAD_SOURCE, "a page came in the place of model.gguf")
    assert desk.names() == []
    server.replace(weights)
    await desk.fetch(server.url)


@pytest.mark.parametrize("source", ["http://xn--/m.gguf", "http://\\/m.gguf", "http://.\u00fc/m.gguf"])
async def test_a_host_that_cannot_be_is_no_bug_of_ours(desk: Desk, source: str) -> None:
    assert (await failure(desk, source)).code in (Code.BAD_SOURCE, Code.TRANSIENT)


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [("7", 7.0), ("\u00b2", 0.0), ("soon", 0.0), ("", 0.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0)],
)
def test_how_long_to_wait_is_read_or_passed_over(asked: str, seconds: float) -> None:
    assert seconds_asked(asked) == seconds


async def test_a_proxy_that_wants_other_credentials_is_named(
    desk: Desk, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(status(407)) as port:
        monkeypatch.setenv("https_proxy", f"http://me:hidden@127.0.0.1:{port}")
        refused = await failure(desk, "https://models.example/model.gguf")
    assert (refused.code, refused.message) == (Code.AUTH, "the proxy answered 407 on the way to models.example")


async def test_a_name_that_is_too_long_is_not_blamed_on_the_volume(desk: Desk, server: FileServer) -> None:
    refused = await failure(desk, server.url.replace("model", "m" * 250))
    assert (refused.code, "too long" in refused.message) == (Code.REFUSED, True)


async def test_a_ca_file_without_certificates_is_named(desk: Desk, server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    assert "holds no certificate" in (await failure(desk, server.url, ca=tmp_path / "empty.pem")).message
    assert "cannot be read" in (await failure(desk, server.url, ca=tmp_path / "absent.pem")).message


async def test_a_wrong_hash_leaves_nothing_behind(desk: Desk, server: FileServer) -> None:
    assert (await failure(desk, server.url, sha256="0" * 64)).code is Code.CHECKSUM
    assert desk.names() == []


async def test_a_hash_that_is_none_is_refused_before_anything_is_asked(desk: Desk, server: FileServer) -> None:
    assert (await failure(desk, server.url, sha256="12")).code is Code.REFUSED
    assert server.requests == []


async def test_what_is_there_is_not_fetched_again(desk: Desk, server: FileServer) -> None:
    first = await desk.fetch(server.url)
    asked = len(server.requests)
    assert await desk.fetch(server.url) == first
    assert len(server.requests) == asked


async def test_a_file_that_was_cut_short_is_fetched_again(desk: Desk, server: FileServer) -> None:
    await desk.fetch(server.url)
    (desk.folder / "model.gguf").write_bytes(server.content[:-1])
    await desk.fetch(server.url)
    assert (desk.folder / "model.gguf").read_bytes() == server.content


async def test_a_file_that_rotted_is_found_when_asked_to_look(desk: Desk, server: FileServer) -> None:
    await desk.fetch(server.url)
    (desk.folder / "model.gguf").write_bytes(gguf(bytes(len(server.content) - 24)))
    await desk.fetch(server.url)
    assert (desk.folder / "model.gguf").read_bytes() == gguf(bytes(len(server.content) - 24))
    await desk.fetch(server.url, verify=True)
    assert (desk.folder / "model.gguf").read_bytes() == server.content


async def test_another_source_replaces_what_is_there(desk: Desk, server: FileServer) -> None:
    await desk.fetch(server.url)
    other = server.url.replace("model", "other")
    await desk.fetch(other)
    assert desk.names() == ["manifest.json", "other.gguf"]


async def test_on_change_fetches_only_what_changed(desk: Desk, server: FileServer) -> None:
    await desk.fetch(server.url)
    await desk.fetch(server.url, refresh=Refresh.ON_CHANGE)
    assert len(server.requests) == 3
    server.replace(gguf(b"new" * 1000))
    got = await desk.fetch(server.url, refresh=Refresh.ON_CHANGE)
    assert (got.files[0].size, (desk.folder / "model.gguf").read_bytes()) == (3024, gguf(b"new" * 1000))


async def test_on_change_keeps_what_is_there_while_upstream_is_away(desk: Desk, server: FileServer) -> None:
    first = await desk.fetch(server.url)
    server.otherwise = status(503)
    assert await desk.fetch(server.url, refresh=Refresh.ON_CHANGE) == first
    assert "503" in desk.lines[-1]["kept"]


@pytest.mark.parametrize("answer", [401, 404, 400])
async def test_on_change_keeps_what_is_there_when_upstream_refuses(desk: Desk, server: FileServer, answer: int) -> None:
    first = await desk.fetch(server.url)
    server.otherwise = status(answer)
    assert await desk.fetch(server.url, refresh=Refresh.ON_CHANGE) == first
    assert str(answer) in desk.lines[-1]["kept"]


async def test_on_change_keeps_what_is_there_when_upstream_never_stands_still(desk: Desk, server: FileServer) -> None:
    first = await desk.fetch(server.url)

    async def changing(request: web.Request) -> web.StreamResponse:
        server.replace(gguf(b"new") * (1000 + len(server.requests)))
        return await server.good(request)

    server.otherwise = changing
    assert await desk.fetch(server.url, refresh=Refresh.ON_CHANGE) == first
    assert (desk.folder / "model.gguf").stat().st_size == first.size


async def test_on_change_keeps_the_file_that_has_the_ordered_hash(desk: Desk, server: FileServer) -> None:
    ordered = sha256(server.content)
    first = await desk.fetch(server.url, sha256=ordered)
    server.replace(gguf(b"another"))
    assert await desk.fetch(server.url, sha256=ordered, refresh=Refresh.ON_CHANGE) == first


@pytest.mark.parametrize(
    "choices",
    ['[{"files":[]}]', '[{"files":[{"name":"../precious","size":8,"sha256":""}]}]', "7"],
)
async def test_a_manifest_that_somebody_edited_is_not_followed(desk: Desk, server: FileServer, choices: str) -> None:
    precious = desk.folder.parent / "precious"
    precious.write_text("precious")
    desk.folder.mkdir()
    key = cache_key(server.url)
    (desk.folder / "manifest.json").write_text(f'{{"source":"","cacheKey":"{key}","choices":{choices}}}')
    await desk.fetch(server.url)
    assert (desk.folder / "model.gguf").read_bytes() == server.content
    assert precious.read_text() == "precious"


async def test_on_change_keeps_what_is_there_when_the_new_file_does_not_come(desk: Desk, server: FileServer) -> None:
    first = await desk.fetch(server.url)
    server.replace(gguf(b"new" * 1000))
    server.script, server.otherwise = [server.good], server.cut(0)
    assert await desk.fetch(server.url, refresh=Refresh.ON_CHANGE) == first
    server.otherwise = server.good
    await desk.fetch(server.url, refresh=Refresh.ON_CHANGE)
    assert (desk.folder / "model.gguf").read_bytes() == gguf(b"new" * 1000)


async def test_a_server_that_does_not_say_the_length_needs_a_hash(desk: Desk, content: bytes) -> None:
    async def until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + content)
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(until_closed, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/model.gguf"
        assert (await failure(desk, url)).code is Code.BAD_SOURCE
        await desk.fetch(url, sha256=sha256(content))
    assert (desk.folder / "model.gguf").read_bytes() == content


async def test_chunks_without_a_length_are_taken(desk: Desk, server: FileServer) -> None:
    async def chunked(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(server.content)
        await response.write_eof()
        return response

    server.otherwise = chunked
    got = await desk.fetch(server.url)
    assert got.files[0].size == len(server.content)
    assert desk.names() == ["manifest.json", "model.gguf"]


async def test_a_packed_answer_is_refused(desk: Desk, server: FileServer) -> None:
    server.otherwise = status(200, Content_Encoding="gzip")
    assert (await failure(desk, server.url)).code is Code.BAD_SOURCE


async def test_an_empty_file_is_a_file(desk: Desk, server: FileServer) -> None:
    server.replace(b"")
    assert (await desk.fetch(f"{server.url[: -len('model.gguf')]}config.json")).files[0].sha256 == sha256(b"")


async def test_names_of_our_own_files_are_refused(desk: Desk, server: FileServer) -> None:
    for name in ("manifest.json", ".lock", "x.partial"):
        assert (await failure(desk, server.url.replace("model.gguf", name))).code is Code.REFUSED


async def test_a_single_file_cannot_be_picked_from(desk: Desk, server: FileServer) -> None:
    assert (await failure(desk, server.url, files=("a.gguf",))).code is Code.REFUSED
    assert (await failure(desk, server.url, everything=True)).code is Code.REFUSED


async def test_a_bad_source_is_told_apart(desk: Desk) -> None:
    assert (await failure(desk, "ftp://example.com/x")).code is Code.BAD_SOURCE
    assert (await failure(desk, "pvc://claim/x")).code is Code.REFUSED


async def test_the_last_line_of_progress_has_everything(desk: Desk, server: FileServer) -> None:
    await desk.fetch(server.url)
    line = desk.lines[-1]
    assert (line["bytes"], line["total"], line["file"]) == (len(server.content), len(server.content), "model.gguf")
    assert line["etaSeconds"] == 0
    assert line["bytesPerSecond"] > 0


@pytest.mark.parametrize(("code", "words"), [(429, "wants fewer requests"), (500, "trouble"), (503, "trouble")])
async def test_a_server_that_answers_is_no_trouble_of_the_network(
    desk: Desk, server: FileServer, code: int, words: str
) -> None:
    server.otherwise = status(code)
    refused = await failure(desk, server.url)
    assert (refused.code, refused.message) == (Code.TRANSIENT, f"127.0.0.1 answered {code} for model.gguf")
    assert words in refused.remedy
    assert "network" not in refused.remedy


async def test_a_connection_that_fails_is_told_in_words(desk: Desk) -> None:
    refused = await failure(desk, "http://127.0.0.1:9/model.gguf")
    assert refused.message == "no connection can be made to 127.0.0.1"
