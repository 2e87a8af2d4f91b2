"""How requests travel: what is certain when the answer does not come, and who we are on the way."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from modelyard.kube.credentials import Identity, StaticCredentials
from modelyard.kube.errors import NoCredentials, Unavailable
from modelyard.local.pki import Authority
from tests.kube.scripted import answer, lost, serving, silence, status, stream, text, transport_to

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from modelyard.kube.transport import Transport


class Rotating:
    """Credentials that change when the server rejects them."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)

    async def current(self) -> Identity:
        return Identity(token=self._tokens[0])

    def rejected(self, identity: Identity) -> None:
        assert identity.token == self._tokens[0]
        if len(self._tokens) > 1:
            self._tokens.pop(0)


async def only_new(request: web.Request) -> web.StreamResponse:
    return web.Response(status=200 if request.headers["Authorization"] == "Bearer new" else 401)


async def read(transport: Transport) -> list[bytes]:
    async with transport.stream("/x", query={}, idle=10) as opened:
        assert opened.status == 200
        return [line async for line in opened.lines]


async def test_we_say_who_we_are_and_what_we_take() -> None:
    async with serving(answer({"a": 1})) as server, transport_to(server.url) as transport:
        response = await transport.request("GET", "/x", query={"a": "b c&d"})
    assert (response.status, response.body) == (200, b'{"a":1}')
    asked = server.asked[0]
    assert (asked.path, asked.query) == ("/x", {"a": "b c&d"})
    assert asked.headers["Authorization"] == "Bearer s3cret"
    assert asked.headers["Accept"].startswith("application/json")
    assert asked.headers["User-Agent"].startswith("modelyard/")


async def test_a_server_may_have_a_path() -> None:
    async with serving(answer({})) as server, transport_to(f"{server.url}/k8s/clusters/c") as transport:
        await transport.request("GET", "/api/v1/pods")
    assert server.asked[0].path == "/k8s/clusters/c/api/v1/pods"


async def test_a_refusal_is_an_answer() -> None:
    async with serving(status(404)) as server, transport_to(server.url) as transport:
        assert (await transport.request("GET", "/x")).status == 404


async def test_a_refused_connection_is_certain() -> None:
    async with serving(answer({})) as server:
        url = server.url
    async with transport_to(url) as transport:
        with pytest.raises(Unavailable, match="cannot be reached") as caught:
            await transport.request("POST", "/x", body=b"{}")
    assert (caught.value.status, caught.value.uncertain) == (0, False)
    assert "ssl:" not in caught.value.message


async def test_an_unknown_host_is_certain() -> None:
    async with transport_to("http://modelyard.invalid") as transport:
        with pytest.raises(Unavailable) as caught:
            await transport.request("POST", "/x", body=b"{}")
    assert caught.value.uncertain is False


@pytest.fixture
def full() -> Iterator[str]:
    """A server that accepts nobody and whose queue is full: the kernel leaves us waiting."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def test_a_connection_that_cannot_be_made_in_time_is_certain(full: str) -> None:
    async with transport_to(full) as transport:
        with pytest.raises(Unavailable) as caught:
            await transport.request("POST", "/x", body=b"{}", timeout=0.4)
    assert caught.value.uncertain is False


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_lost_answer_is_reported_as_uncertain_and_not_repeated(method: str) -> None:
    async with serving(answer({}), lost) as server, transport_to(server.url) as transport:
        await transport.request("GET", "/warm")
        with pytest.raises(Unavailable) as caught:
            await transport.request(method, "/x", body=b"{}")
    assert caught.value.uncertain
    assert [asked.method for asked in server.asked] == ["GET", method]


async def test_a_read_whose_connection_was_stale_is_repeated() -> None:
    async with serving(answer({}), lost, answer({"a": 1})) as server, transport_to(server.url) as transport:
        await transport.request("GET", "/warm")
        assert (await transport.request("GET", "/x")).body == b'{"a":1}'


async def test_no_answer_in_time_is_uncertain() -> None:
    async with serving(silence) as server, transport_to(server.url) as transport:
        with pytest.raises(Unavailable, match="in time") as caught:
            await transport.request("POST", "/x", body=b"{}", timeout=0.2)
    assert caught.value.uncertain


async def test_half_an_answer_is_uncertain() -> None:
    async with serving(stream(b'{"a":', then="cut")) as server, transport_to(server.url) as transport:
        with pytest.raises(Unavailable) as caught:
            await transport.request("POST", "/x", body=b"{}")
    assert caught.value.uncertain


async def test_cancelling_a_request_cancels_it() -> None:
    async with serving(silence) as server, transport_to(server.url) as transport:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await transport.request("GET", "/x")


async def test_rejected_credentials_are_renewed_once() -> None:
    async with serving(only_new) as server, transport_to(server.url, Rotating("old", "new")) as transport:
        assert (await transport.request("PATCH", "/x", body=b"{}")).status == 200
        assert (await transport.request("PATCH", "/x", body=b"{}")).status == 200
    sent = [(asked.headers["Authorization"], asked.body) for asked in server.asked]
    assert sent == [("Bearer old", b"{}"), ("Bearer new", b"{}"), ("Bearer new", b"{}")]


async def test_a_stream_renews_rejected_credentials_too() -> None:
    async with serving(only_new) as server, transport_to(server.url, Rotating("old", "new")) as transport:
        assert await read(transport) == []


async def test_credentials_that_stay_rejected_are_reported() -> None:
    async with serving(only_new) as server, transport_to(server.url, Rotating("old", "older")) as transport:
        assert (await transport.request("GET", "/x")).status == 401
    assert len(server.asked) == 2


async def test_a_redirect_does_not_carry_the_token_away() -> None:
    async with serving(answer({})) as other:
        script = text(b"", 302, {"Location": other.url})
        async with serving(script) as server, transport_to(server.url) as transport:
            assert (await transport.request("GET", "/x")).status == 302
    assert other.asked == []


async def test_lines_are_whole_however_they_are_cut() -> None:
    parts = (b"one\ntw", b"o\nth", b"r", b"ee\n", b"four")
    async with serving(stream(*parts, then="end")) as server, transport_to(server.url) as transport:
        assert await read(transport) == [b"one", b"two", b"three", b"four"]


async def test_a_line_may_be_longer_than_a_megabyte() -> None:
    long = b"x" * 3_000_000
    async with serving(stream(long, b"\n", b"y\n", then="end")) as server, transport_to(server.url) as transport:
        assert await read(transport) == [long, b"y"]


async def test_a_line_without_an_end_is_given_up() -> None:
    async with serving(stream(*[b"x" * 8_000_000] * 6)) as server, transport_to(server.url) as transport:
        with pytest.raises(Unavailable, match="does not end"):
            await read(transport)


async def test_a_stream_outlives_the_time_limit_of_a_request_but_not_silence() -> None:
    async with serving(stream(b"one\n")) as server, transport_to(server.url) as transport:
        lines = []
        with pytest.raises(Unavailable, match="in time"):
            async with transport.stream("/x", query={}, idle=1.0) as opened:
                async for line in opened.lines:
                    lines.append(line)
    assert lines == [b"one"]


async def test_a_stream_that_is_cut_says_so() -> None:
    async with serving(stream(b"one\n", then="cut")) as server, transport_to(server.url) as transport:
        with pytest.raises(Unavailable, match="broke"):
            await read(transport)


async def test_streams_do_not_starve_requests() -> None:
    async def either(request: web.Request) -> web.StreamResponse:
        return await (stream(b"one\n") if request.path == "/stream" else answer({}))(request)

    opened, enough = 0, asyncio.Event()

    async def hold(transport: Transport) -> None:
        nonlocal opened
        async with transport.stream("/stream", query={}, idle=30):
            opened += 1
            if opened == 80:
                enough.set()
            await asyncio.Event().wait()

    async with serving(either) as server, transport_to(server.url) as transport:
        holding = [asyncio.create_task(hold(transport)) for _ in range(80)]
        async with asyncio.timeout(60):
            await enough.wait()
            assert (await transport.request("GET", "/x")).status == 200
        for task in holding:
            task.cancel()
        await asyncio.gather(*holding, return_exceptions=True)


class Tls:
    """A server certificate for `api.example`, and an authority that signs clients."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority.open(folder, "test")
        self.pem = self.authority.certificate_file.read_text()
        served = self.authority.server("api", ["api.example"])
        both = folder / "both.pem"
        both.write_bytes(served.certificate + served.key)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.pem)
        self.context.load_cert_chain(both)

    def client(self, user: str) -> Identity:
        credential = self.authority.client(user)
        return Identity(certificate=credential.certificate, key=credential.key)


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return Tls(tmp_path / "pki")


async def shown(request: web.Request) -> web.StreamResponse:
    certificate = request.get_extra_info("peercert")
    return web.Response(text=dict(part[0] for part in certificate["subject"])["commonName"] if certificate else "none")


async def test_a_server_is_trusted_by_its_authority_and_name(tls: Tls) -> None:
    async with serving(shown, tls=tls.context) as server:
        async with transport_to(server.url, authority=tls.pem, server_name="api.example") as transport:
            assert (await transport.request("GET", "/x")).body == b"none"


@pytest.mark.parametrize(
    "trust", [{"authority": "", "server_name": "api.example"}, {"server_name": "other.example"}, {}]
)
async def test_a_stranger_is_not_told_who_we_are(tls: Tls, trust: dict[str, Any]) -> None:
    async with serving(shown, tls=tls.context) as server:
        async with transport_to(server.url, **({"authority": tls.pem} | trust)) as transport:
            with pytest.raises(Unavailable, match=re.compile("certificate", re.IGNORECASE)) as caught:
                await transport.request("POST", "/x", body=b"{}")
    assert caught.value.uncertain is False
    assert server.asked == []


async def test_a_kubeconfig_may_ask_to_trust_anybody(tls: Tls) -> None:
    async with serving(shown, tls=tls.context) as server, transport_to(server.url, verify=False) as transport:
        assert (await transport.request("GET", "/x")).status == 200


async def test_a_client_certificate_is_shown_and_its_successor_after_it(tls: Tls) -> None:
    tls.context.verify_mode = ssl.CERT_REQUIRED

    class Changing:
        def __init__(self) -> None:
            self.identity = tls.client("alice")

        async def current(self) -> Identity:
            return self.identity

        def rejected(self, identity: Identity) -> None: ...

    who = Changing()
    async with serving(shown, tls=tls.context) as server:
        async with transport_to(server.url, who, authority=tls.pem, server_name="api.example") as transport:
            assert (await transport.request("GET", "/x")).body == b"alice"
            who.identity = tls.client("bob")
            assert (await transport.request("GET", "/x")).body == b"bob"


async def test_a_new_authority_of_the_cluster_is_read_when_the_old_one_does_not_fit(tls: Tls, tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_text("in the middle of a rotation")
    old = Authority.open(tmp_path / "old", "old").certificate_file.read_text()
    trust = {"authority": old, "authority_file": file, "server_name": "api.example"}
    async with serving(shown, tls=tls.context) as server, transport_to(server.url, **trust) as transport:
        for _ in range(2):
            with pytest.raises(Unavailable, match="cannot be reached") as caught:
                await transport.request("GET", "/")
            assert "ssl:" not in caught.value.message, "where the settings are in memory is nobody's business"
            file.write_text(tls.pem)
        assert (await transport.request("GET", "/")).status == 200
    assert len(server.asked) == 1


async def test_a_certificate_that_is_not_accepted_is_told_in_words(tls: Tls) -> None:
    async with serving(shown, tls=tls.context) as server:
        async with transport_to(server.url, authority=tls.pem) as transport:
            with pytest.raises(Unavailable) as caught:
                await transport.request("GET", "/")
    port = server.url.rpartition(":")[2]
    told = f"the API server cannot be reached: the certificate of 127.0.0.1:{port} is not accepted: IP address mismatch"
    assert caught.value.message.startswith(told)


async def test_a_token_that_no_header_can_carry_is_not_sent() -> None:
    async with serving(answer({})) as server:
        async with transport_to(server.url, StaticCredentials(Identity(token="a\nb"))) as transport:
            with pytest.raises(NoCredentials, match="the token holds a line break"):
                await transport.request("GET", "/x")
    assert server.asked == []


async def test_what_is_not_http_is_said_in_a_line() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with transport_to(f"http://127.0.0.1:{port}") as transport:
            with pytest.raises(Unavailable) as caught:
                await transport.request("GET", "/")
    assert caught.value.message == "the connection to the API server broke: what it sends is not HTTP"


async def test_a_key_that_does_not_fit_is_reported(tls: Tls) -> None:
    mixed = Identity(certificate=tls.client("a").certificate, key=tls.client("b").key)
    async with serving(shown, tls=tls.context) as server:
        async with transport_to(server.url, StaticCredentials(mixed), authority=tls.pem) as transport:
            with pytest.raises(NoCredentials, match="certificate and its key"):
                await transport.request("GET", "/x")


async def test_what_is_posted_to_a_proxy_is_answered_as_it_comes_whatever_the_status() -> None:
    async with serving(stream(b"data: a\n\n"), text(b"no", 429)) as server, transport_to(server.url) as transport:
        async with transport.stream("/x", query={}, idle=5.0, body=b'{"x":1}') as said:
            assert (said.status, await anext(said.lines)) == (200, b"data: a")
        async with transport.stream("/x", query={}, idle=5.0, body=b"{}") as said:
            assert (said.status, [line async for line in said.lines]) == (429, [b"no"])
    asked = server.asked[0]
    assert (asked.method, asked.path, asked.json) == ("POST", "/x", {"x": 1})
    assert asked.headers["Content-Type"] == "application/json"
