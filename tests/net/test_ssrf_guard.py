"""Addresses that users wrote: whatever they lead to, nothing is dialled that is not allowed, and every visit ends."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from msgspec.structs import replace

from modelyard.net.addresses import Permitted, permitted
from modelyard.net.dns import resolver
from modelyard.net.http_exchange import Distrusted, ExchangeFailed, NoAnswer, TooLong, Unreadable
from modelyard.net.ssrf_guard import Guard, NotAllowed, _PinnedResolver, guarded_session
from tests.net.certificates import issue, served
from tests.net.greetings import SERVICE, answering, request, scripted
from tests.net.upstream import Names, guard
from tests.weights.fileserver import serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.net.greetings import Script

OK = "HTTP/1.1 200 OK"
NOT_DIALLED = "leads to an address that the operator does not dial"


async def get(url: str, using: Guard, span: str = "") -> bytes:
    async with guarded_session(using) as session, session.get(url, span) as reply:
        return await reply.read()


async def failing(url: str, using: Guard) -> ExchangeFailed:
    with pytest.raises(ExchangeFailed) as caught:
        await get(url, using)
    return caught.value


class Site:
    """Answers every request with its head, or with a redirect if the path has one."""

    def __init__(self, **redirects: str) -> None:
        self.redirects = {f"/{path}": target for path, target in redirects.items()}
        self.requests: list[web.Request] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if target := self.redirects.get(request.path):
            return web.Response(status=302, headers={"Location": target, "Set-Cookie": "a=b"})
        return web.Response(text=request.raw_path, headers={"Set-Cookie": "a=b"})


async def test_the_server_sees_the_name_and_the_path_as_they_were_written() -> None:
    site = Site()
    async with serving(site.handle) as port:
        body = await get(f"http://files.example:{port}/a%2Fb/c?sig=%2f%2B+x#part", guard(), "bytes=0-9")
    assert body == b"/a%2Fb/c?sig=%2f%2B+x"
    (asked,) = site.requests
    assert dict(asked.headers) == {
        "Host": f"files.example:{port}",
        "User-Agent": "modelyard",
        "Accept-Encoding": "identity",
        "Accept": "*/*",
        "Range": "bytes=0-9",
    }


async def test_user_info_is_never_sent() -> None:
    site = Site(one="http://other:secret@files.example:{port}/two")
    async with serving(site.handle) as port:
        site.redirects["/one"] = site.redirects["/one"].format(port=port)
        await get(f"http://user:secret@files.example:{port}/one", guard())
    assert [asked.path for asked in site.requests] == ["/one", "/two"]
    assert not any("Authorization" in asked.headers for asked in site.requests)


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serving(Site().handle) as port:
        assert await get(f"http://files.example:{port}/x", guard()) == b"/x"


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "[::1]", "0.0.0.0", "[::]", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"),
        *("2130706433", "0x7f000001", "0177.0.0.1", "127.1", "①②⑦.0.0.1", "127。0。0。1"),
        *("169.254.169.254", "[fd00:ec2::254]", "10.0.0.1", "[64:ff9b::a00:1]", "[2002:7f00:1::]"),
    ],
)
async def test_no_spelling_of_a_forbidden_address_is_dialled(host: str) -> None:
    connections = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(host)

    async with scripted(note) as where, resolver() as resolve:
        _, port = where(SERVICE)
        failure = await failing(f"http://{host}:{port}/", Guard(resolve, seconds=10.0))
    assert connections == []
    # Some spellings are addresses only to some lookups; to ours they are names that nobody has.
    assert isinstance(failure, NotAllowed | NoAnswer)


async def test_one_forbidden_address_among_several_is_enough_to_refuse() -> None:
    site = Site()
    async with serving(site.handle) as port:
        failure = await failing(f"http://files.example:{port}/", guard(Names(files=[["127.0.0.1", "10.0.0.1"]])))
    assert (site.requests, str(failure)) == ([], NOT_DIALLED)


@pytest.mark.parametrize("host", ["127.0.0.1", "files.example", "api.example"])
@pytest.mark.parametrize("server", ["127.0.0.1", "api.example"])
async def test_the_api_server_is_not_dialled_however_it_is_spelled_and_whatever_is_permitted(
    host: str, server: str
) -> None:
    site, names = Site(), Names(files=[["127.0.0.1"]], api=[["127.0.0.1"]])
    async with serving(site.handle) as port:
        using = replace(guard(names), api_server=f"https://{server}:{port}")
        assert str(await failing(f"http://{host}:{port}/", using)) == NOT_DIALLED
        async with serving(site.handle) as other:
            assert await get(f"http://{host}:{other}/x", using) == b"/x"
    assert len(site.requests) == 1


async def test_a_redirect_to_the_api_server_is_not_followed() -> None:
    async with serving(Site().handle) as secret:
        site = Site(x=f"http://files.example:{secret}/")
        async with serving(site.handle) as port:
            using = replace(guard(), api_server=f"https://127.0.0.1:{secret}")
            assert isinstance(await failing(f"http://files.example:{port}/x", using), NotAllowed)


async def test_a_name_that_changes_its_address_is_dialled_where_it_was_checked() -> None:
    names = Names(files=[["127.0.0.1"], ["10.0.0.1"]])
    site, using = Site(), guard(names)
    async with serving(site.handle) as port:
        url = f"http://files.example:{port}/x"
        async with guarded_session(using) as session:
            for _ in range(2):
                async with session.get(url) as reply:
                    assert await reply.read() == b"/x"
        assert names.lookups == ["files.example"]
        assert isinstance(await failing(url, using), NotAllowed)
    assert len(site.requests) == 2


async def test_no_socket_is_opened_to_an_address_that_was_not_checked() -> None:
    pinned = _PinnedResolver(Guard(Names().resolve))
    with pytest.raises(OSError, match="not checked"):
        pinned.open_socket((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 1)))


async def test_a_host_that_an_administrator_named_is_dialled_at_any_address() -> None:
    names = Names(files=[["127.0.0.1"]], other=[["127.0.0.1"]])
    using = Guard(names.resolve, permitted(["files.example"]))
    async with serving(Site().handle) as port:
        assert await get(f"http://files.example:{port}/x", using) == b"/x"
        assert isinstance(await failing(f"http://other.example:{port}/x", using), NotAllowed)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("http://10.0.0.1/latest", NOT_DIALLED),
        ("http://169.254.169.254/latest", NOT_DIALLED),
        ("//inner.example/", NOT_DIALLED),
        ("http://[::1]/", NOT_DIALLED),
        ("file:///etc/passwd", "does not lead to an http or https URL"),
        ("gopher://files.example/", "does not lead to an http or https URL"),
        ("http://files.example:99999/", "does not lead to a valid URL"),
        ("http://[::1/", "does not lead to a valid URL"),
        ("", "redirects more than 5 times"),
        ("/loop", "redirects more than 5 times"),
        ("http://nowhere.example/", "did not answer"),
    ],
)
async def test_a_redirect_is_checked_like_the_first_address(target: str, text: str) -> None:
    site = Site(loop=target or "?")
    async with serving(site.handle) as port:
        names = Names(files=[["127.0.0.1"]], inner=[["192.168.0.1"]])
        failure = await failing(f"http://files.example:{port}/loop", guard(names))
    assert str(failure) == text
    assert len(site.requests) == (6 if "more than" in text else 1)


async def test_redirects_are_followed_to_another_host_with_nothing_but_the_range() -> None:
    names = Names(files=[["127.0.0.1"]], cdn=[["127.0.0.1"]])
    site = Site(one="/two", two="?x=1", three="")
    async with serving(site.handle) as port:
        site.redirects = {"/one": "two", "/two": f"http://cdn.example:{port}/three?sig=%2F"}
        assert await get(f"http://files.example:{port}/one", guard(names), "bytes=0-0") == b"/three?sig=%2F"
    assert [asked.host.partition(":")[0] for asked in site.requests] == ["files.example"] * 2 + ["cdn.example"]
    assert {frozenset(asked.headers) for asked in site.requests} == {
        frozenset({"Host", "User-Agent", "Accept", "Accept-Encoding", "Range"})
    }


@pytest.mark.parametrize(
    "url",
    [
        "ftp://files.example/x",
        "file:///etc/passwd",
        "files.example/x",
        "http:///x",
        "http://[::1",
        "http://h:99999/",
        "",
    ],
)
async def test_what_is_no_url_of_the_web_is_not_asked(url: str) -> None:
    names = Names()
    failure = await failing(url, guard(names))
    assert isinstance(failure, Unreadable)
    assert names.lookups == []


@pytest.mark.parametrize("host", ["nowhere.example", "files.example..", "%00", "a" * 300, ".", "x..y"])
async def test_a_name_without_an_address_does_not_answer(host: str) -> None:
    failure = await failing(f"http://{host}:1/", guard())
    assert (type(failure), str(failure)) == (NoAnswer, "did not answer")


@pytest.mark.parametrize("host", ["a" * 300, "x..y", ".", "\x00"])
async def test_impossible_names_have_no_address(host: str) -> None:
    async with resolver() as resolve:
        with pytest.raises(OSError, match="no address"):
            await resolve(host, 80)


async def test_names_of_the_machine_are_found() -> None:
    async with resolver() as resolve:
        assert "127.0.0.1" in await resolve("localhost", 80)


async def test_a_name_server_that_does_not_answer_holds_nobody_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        async with resolver([server]) as resolve:
            waiting = [asyncio.ensure_future(resolve(f"host-{number}.example", 80)) for number in range(100)]
            await asyncio.sleep(0)
            for task in waiting:
                task.cancel()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended)


async def test_closed_and_silent_ports_read_the_same() -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with scripted(silence) as where:
        _, port = where(SERVICE)
        silent = await failing(f"http://files.example:{port}/", guard(seconds=0.3))
    closed = await failing(f"http://files.example:{port}/", guard())
    assert (type(silent), str(silent)) == (type(closed), str(closed)) == (NoAnswer, "did not answer")
    assert closed.detail != silent.detail


def trusting(pem: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=pem)


async def test_tls_proves_the_name_of_the_url(tmp_path: Path) -> None:
    root = issue("root.example", authority=True)
    names = Names(files=[["127.0.0.1"]], other=[["127.0.0.1"]])
    async with serving(Site().handle, served(tmp_path, issue("files.example", root))) as port:
        using = guard(names, tls=trusting(root.pem))
        assert await get(f"https://files.example:{port}/x", using) == b"/x"
        assert isinstance(await failing(f"https://other.example:{port}/x", using), Distrusted)
        assert isinstance(await failing(f"https://files.example:{port}/x", guard(names)), Distrusted)


async def test_no_redirect_leads_from_https_to_http(tmp_path: Path) -> None:
    identity = issue("files.example", authority=True)
    site = Site(x="http://files.example/x")
    async with serving(site.handle, served(tmp_path, identity)) as port:
        failure = await failing(f"https://files.example:{port}/x", guard(tls=trusting(identity.pem)))
    assert str(failure) == "redirects from https to http"


async def asked(script: Script, seconds: float = 10.0) -> ExchangeFailed:
    async with scripted(script) as where, asyncio.timeout(60):
        _, port = where(SERVICE)
        return await failing(f"http://files.example:{port}/x?signature=secret", guard(seconds=seconds))


@pytest.mark.parametrize(
    ("head", "body", "kind", "text"),
    [
        pytest.param("SSH-2.0-OpenSSH_9.6", b"", Unreadable, "does not speak HTTP", id="not HTTP"),
        pytest.param(f"{OK}\nX: {'x' * 100_000}", b"", Unreadable, "does not speak HTTP", id="long header"),
        pytest.param(f"{OK}\nContent-Length: 9", b"x", NoAnswer, "did not answer", id="shorter than announced"),
        pytest.param(f"{OK}\nTransfer-Encoding: chunked", b"5\r\nx", NoAnswer, "did not answer", id="chunk cut short"),
        pytest.param(OK, b"x" * 300_000, TooLong, "answers with more than 256 KiB", id="too long"),
        pytest.param(
            f"{OK}\nContent-Encoding: gzip",
            gzip.compress(b" " * 50_000_000),
            TooLong,
            "answers with more than 256 KiB",
            id="gzip bomb",
        ),
        pytest.param(f"{OK}\nContent-Encoding: gzip", b"x" * 9, Unreadable, "answers with broken gzip", id="broken"),
    ],
)
async def test_a_bad_answer_is_told_in_plain_words(head: str, body: bytes, kind: type, text: str) -> None:
    failure = await asked(answering(head, body))
    assert (type(failure), str(failure)) == (kind, text)
    assert "secret" not in failure.detail


@pytest.mark.parametrize("head", [f"{OK}\nX-Slow: ", f"{OK}\n\n", "HTTP/1.1 302 Found\nX-Slow: "])
async def test_slow_bytes_end_with_the_time_limit(head: str) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(head.replace("\n", "\r\n").encode())
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    assert str(await asked(drip, seconds=0.3)) == "did not answer"


@pytest.mark.parametrize("packed", [False, True])
async def test_an_endless_body_is_left_early_and_costs_little_memory(packed: bool) -> None:
    piece = gzip.compress(b"[" * 10_000_000) if packed else b"[" * 65536

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(f"{OK}\r\n{'Content-Encoding: gzip' if packed else 'X: y'}\r\n\r\n".encode())
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()

    tracemalloc.start()
    try:
        failure = await asked(flood)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(failure) == "answers with more than 256 KiB"
    assert peak < 10 * 1024 * 1024


async def test_redirects_share_one_time_limit() -> None:
    async def dawdle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        await asyncio.sleep(0.2)
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()

    assert str(await asked(dawdle, seconds=0.5)) == "did not answer"


def test_without_a_policy_nothing_is_permitted() -> None:
    assert Guard(Names().resolve).exceptions == Permitted()
