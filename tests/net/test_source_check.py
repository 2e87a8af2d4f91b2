"""A look at weights where they come from: what is told of good servers, and of all the others."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web

from modelyard.core.checks import Answer
from modelyard.core.checks.remote_weights import RemoteWeights
from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.net.gguf import HeaderReader
from modelyard.net.source_check import HEADER_LIMIT, SourceChecker, check_source
from tests.net.certificates import issue, served
from tests.net.greetings import SERVICE, answering, request, scripted
from tests.net.headers import ARRAY, STRING, gguf, text
from tests.net.upstream import Names, guard
from tests.weights.fileserver import serving

if TYPE_CHECKING:
    from tests.net.greetings import Script
    from tests.weights.fileserver import Handler

MODEL = Path(__file__).parents[1] / "data" / "yard.gguf"
YARD = MODEL.read_bytes()
HEADER = msgspec.to_builtins(HeaderReader().feed(YARD))
WHOLE = {"etag": '"v1"', "contentLength": len(YARD), "gguf": HEADER}
ETAG = {"ETag": '"v1"'}


def check(port: int, *, gguf: bool = True, scheme: str = "http") -> RemoteWeights:
    return RemoteWeights(f"{scheme}://user:pw@files.example:{port}/model.gguf?signature=secret", 3600.0, gguf)


async def asked(handler: Handler, *, gguf: bool = True) -> Answer:
    async with serving(handler) as port:
        return await check_source(check(port, gguf=gguf), guard())


async def told(head: str, body: bytes = b"", *, gguf: bool = True) -> Answer:
    async with scripted(answering(head, body)) as where:
        return await check_source(check(where(SERVICE)[1], gguf=gguf), guard())


def good(value: dict[str, Any]) -> Answer:
    return Answer(True, Reason.ANSWERED, "files.example answered", value)


async def test_a_file_is_seen_with_its_version_its_length_and_its_header() -> None:
    seen: list[web.Request] = []

    async def file(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        return web.FileResponse(MODEL)

    answer = await asked(file)
    assert answer == good({**WHOLE, "etag": answer.value["etag"]})
    assert answer.value["etag"]
    assert [(asked.method, asked.headers["Range"]) for asked in seen] == [("GET", f"bytes=0-{HEADER_LIMIT - 1}")]


async def test_a_header_is_read_again_only_when_the_file_is_another() -> None:
    etag = '"v1"'

    async def unreadable_after_the_first(request: web.Request) -> web.StreamResponse:
        body = YARD if not seen else bytes(len(YARD))
        return web.Response(body=body, headers={"ETag": etag})

    seen: list[Answer] = []
    async with serving(unreadable_after_the_first) as port:
        checker = SourceChecker(guard())
        seen.append(await checker.check(check(port)))
        seen.append(await checker.check(check(port)))
        etag = '"v2"'
        seen.append(await checker.check(check(port)))
    assert seen == [good(WHOLE), good(WHOLE), good({"etag": '"v2"', "contentLength": len(YARD)})]


async def test_one_byte_is_enough_where_no_header_is_expected() -> None:
    async def first(request: web.Request) -> web.StreamResponse:
        assert request.headers["Range"] == "bytes=0-0"
        return web.Response(status=206, body=b"G", headers={**ETAG, "Content-Range": f"bytes 0-0/{len(YARD)}"})

    assert await asked(first, gguf=False) == good({"etag": '"v1"', "contentLength": len(YARD)})


async def test_a_server_without_ranges_is_left_when_the_header_is_complete() -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await request(reader)
        writer.write(b'HTTP/1.1 200 OK\r\nETag: "v1"\r\nContent-Length: 99999999999\r\n\r\n' + YARD)
        while not writer.is_closing():
            writer.write(bytes(65536))
            sent += 65536
            await writer.drain()

    async with scripted(endless) as where, asyncio.timeout(60):
        answer = await check_source(check(where(SERVICE)[1]), guard())
    assert answer == good({**WHOLE, "contentLength": 99999999999})
    # What the buffers of two sockets hold, and no more.
    assert sent < HEADER_LIMIT


async def test_a_hub_that_redirects_to_its_storage_is_followed() -> None:
    async def hub(request: web.Request) -> web.StreamResponse:
        if request.path == "/model.gguf":
            return web.Response(status=302, headers={"Location": f"http://cdn.example:{request.url.port}/blob", **ETAG})
        return web.Response(body=YARD, headers={"ETag": '"blob"'})

    names = Names(files=[["127.0.0.1"]], cdn=[["127.0.0.1"]])
    async with serving(hub) as port:
        assert await check_source(check(port), guard(names)) == good({**WHOLE, "etag": '"blob"'})


@pytest.mark.parametrize(
    ("head", "body", "value"),
    [
        pytest.param("200 OK\nContent-Length: 4", b"<htm", {"etag": "", "contentLength": 4}, id="not GGUF"),
        pytest.param("200 OK", YARD, {"etag": "", "contentLength": None, "gguf": HEADER}, id="no length"),
        pytest.param("200 OK", YARD[:999], {"etag": "", "contentLength": None}, id="ends within the header"),
        pytest.param("200 OK\nContent-Length: 0", b"", {"etag": "", "contentLength": 0}, id="empty"),
        pytest.param("416 No\nContent-Range: bytes */0", b"", {"etag": "", "contentLength": 0}, id="empty too"),
        pytest.param("416 No", b"", {"etag": "", "contentLength": None}, id="no range at all"),
        pytest.param(
            "206 Part\nContent-Range: bytes 0-9999999/*",
            YARD,
            {"etag": "", "contentLength": None, "gguf": HEADER},
            id="range of unknown length",
        ),
        pytest.param(
            "206 Part\nContent-Range: bytes 5-99/4000", YARD, {"etag": "", "contentLength": 4000}, id="another range"
        ),
        pytest.param("206 Part\nContent-Range: junk", YARD, {"etag": "", "contentLength": None}, id="no such range"),
        pytest.param(
            f"206 Part\nContent-Range: bytes 0-9/{'9' * 40}\nETag: {'e' * 999}",
            b"0123456789",
            {"etag": "e" * 256, "contentLength": None},
            id="absurd numbers and texts",
        ),
        pytest.param(
            "200 OK\nContent-Encoding: gzip",
            gzip.compress(YARD),
            {"etag": "", "contentLength": None, "gguf": HEADER},
            id="packed on the way",
        ),
    ],
)
async def test_what_can_be_seen_of_odd_answers_is_told(head: str, body: bytes, value: dict[str, Any]) -> None:
    assert await told(f"HTTP/1.1 {head}", body) == good(value)


async def test_a_header_without_end_is_not_read() -> None:
    token = text("x" * 65536)
    start = b"HTTP/1.1 200 OK\r\n\r\n" + gguf(("tokens", ARRAY, struct.pack("<IQ", STRING, 9_999_999)))

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(start)
        while not writer.is_closing():
            writer.write(token)
            await writer.drain()

    async with scripted(flood) as where, asyncio.timeout(60):
        assert await check_source(check(where(SERVICE)[1]), guard()) == good({"etag": "", "contentLength": None})


REFUSED = "the operator looks without credentials; if pods have none either, check spec.source"
REACH = "check spec.source and that the operator can reach this host"
BUSY = "it is asked again; its server is busy or has trouble"


@pytest.mark.parametrize(
    ("status", "reason", "remedy"),
    [
        (401, Reason.UPSTREAM_REFUSED, REFUSED),
        (403, Reason.UPSTREAM_REFUSED, REFUSED),
        (404, Reason.UPSTREAM_NOT_FOUND, "check the spelling of spec.source"),
        (410, Reason.UPSTREAM_NOT_FOUND, "check the spelling of spec.source"),
        (400, Reason.UPSTREAM_UNREACHABLE, "check spec.source"),
        (204, Reason.UPSTREAM_UNREACHABLE, "check spec.source"),
        (304, Reason.UPSTREAM_UNREACHABLE, "check spec.source"),
        (429, Reason.UPSTREAM_UNREACHABLE, BUSY),
        (503, Reason.UPSTREAM_UNREACHABLE, BUSY),
    ],
)
async def test_a_refusal_is_told_with_its_remedy(status: int, reason: Reason, remedy: str) -> None:
    answer = await told(f"HTTP/1.1 {status} No\nContent-Length: 0")
    assert answer == Answer(False, reason, f"files.example answered with HTTP {status}; {remedy}")


@pytest.mark.parametrize(
    ("head", "body", "wrong"),
    [
        pytest.param("SSH-2.0", b"", "does not speak HTTP; check spec.source", id="not HTTP"),
        pytest.param("HTTP/1.1 200 OK\nContent-Length: 9000", YARD[:99], f"did not answer; {REACH}", id="cut short"),
        pytest.param("HTTP/1.1 302 X\nLocation: /x", b"", "redirects more than 5 times; check spec.source", id="loop"),
        pytest.param(
            "HTTP/1.1 302 Found\nLocation: ftp://x/",
            b"",
            "does not lead to an http or https URL; check spec.source",
            id="ftp",
        ),
    ],
)
async def test_an_answer_that_is_none_is_told_as_such(head: str, body: bytes, wrong: str) -> None:
    answer = await told(head, body)
    assert answer == Answer(False, Reason.UPSTREAM_UNREACHABLE, f"files.example {wrong}")


async def test_a_slow_header_ends_with_the_time_limit() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + YARD[:99])
        await reader.read()

    async with scripted(drip) as where, asyncio.timeout(60):
        answer = await check_source(check(where(SERVICE)[1]), guard(seconds=0.3))
    assert (answer.ok, answer.reason) == (False, Reason.UPSTREAM_UNREACHABLE)


@pytest.mark.parametrize(
    ("days", "wrong"),
    [
        (1, "presents a certificate that the operator does not trust"),
        (-1, "presents a certificate outside its dates"),
    ],
)
async def test_a_certificate_that_proves_nothing_is_told(tmp_path: Path, days: int, wrong: str) -> None:
    identity = issue("files.example", days=days)
    trusted = ssl.create_default_context(cadata=identity.pem) if days < 0 else None
    async with serving(_never, served(tmp_path, identity)) as port:
        answer = await check_source(check(port, scheme="https"), guard(tls=trusted))
    assert answer == Answer(False, Reason.UPSTREAM_UNREACHABLE, f"files.example {wrong}; check spec.source")


async def _never(request: web.Request) -> web.StreamResponse:
    raise AssertionError("nothing is asked over a connection that proves nothing")


@pytest.mark.parametrize("url", ["http://files.example/x", "http://10.0.0.1/x", "https://169.254.169.254/x"])
async def test_an_address_that_is_not_public_needs_an_administrator(url: str) -> None:
    names = Names(files=[["192.168.0.1"]])
    answer = await check_source(RemoteWeights(url, 3600.0), guard(names))
    assert (answer.ok, answer.reason) == (False, Reason.ADDRESS_NOT_ALLOWED)
    host = url.split("/")[2]
    assert answer.message == (
        f"{host} leads to an address that the operator does not dial; "
        "use a public address in spec.source, or let an administrator add it to --allowed-remote-hosts"
    )


@pytest.mark.parametrize("url", ["http://[::1", "http:///x", "", "http://h:99999/x"])
async def test_a_url_that_cannot_be_read_is_no_bug_of_ours(url: str) -> None:
    answer = await check_source(RemoteWeights(url, 3600.0), guard())
    assert (answer.ok, answer.reason) == (False, Reason.UPSTREAM_UNREACHABLE)


SCRIPTS: dict[str, Script] = {
    "refused": answering("HTTP/1.1 403 No\nContent-Length: 0"),
    "broken": answering("SSH"),
    "elsewhere": answering("HTTP/1.1 302 Found\nLocation: http://user:pw@10.0.0.1/?signature=secret"),
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
async def test_passwords_and_signatures_are_not_told(script: Script) -> None:
    async with scripted(script) as where:
        answer = await check_source(check(where(SERVICE)[1]), guard())
    assert not answer.ok
    assert not any(word in answer.message for word in ("pw", "secret", "signature", "10.0.0.1"))


def test_a_look_that_fails_warns_nobody_because_pods_have_their_own_way() -> None:
    upstream = {
        Reason.UPSTREAM_UNREACHABLE,
        Reason.UPSTREAM_REFUSED,
        Reason.UPSTREAM_NOT_FOUND,
        Reason.ADDRESS_NOT_ALLOWED,
    }
    assert not upstream & PROBLEMS
