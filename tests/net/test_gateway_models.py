"""What the check of a gateway finds out, against a real small gateway with real providers, slow and hostile ones."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from modelyard.core.checks import Answer
from modelyard.core.checks.gateway_models import GatewayModels
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.core.reasons import Reason
from modelyard.net.gateway_models import ask_gateway
from tests.net.certificates import issue, served
from tests.net.greetings import answering, scripted
from tests.support.gatewayserver import Gateway, Upstream

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from modelyard.net.http_exchange import Locate

    Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

SERVICE = ServiceAddress("default", "edge", 8080)
KEY = "right"
NOWHERE = "http://127.0.0.1:1/v1"


def check(*providers: str, **fields: Any) -> GatewayModels:
    return GatewayModels(SERVICE, providers, "template-1", **fields)


@asynccontextmanager
async def listening(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Run a server on loopback; yields its port."""
    runner = web.ServerRunner(web.Server(handler, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def gateway(tls: ssl.SSLContext | None = None, **providers: Upstream) -> AsyncIterator[Locate]:
    """Run the small gateway with these providers; yields where it is."""
    runner = web.AppRunner(Gateway(providers).app(), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        port = runner.addresses[0][1]
        yield lambda _: ("127.0.0.1", port)
    finally:
        await runner.cleanup()


async def provider(request: web.BaseRequest) -> web.StreamResponse:
    """A provider of three models that wants the right key."""
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        return web.Response(status=401)
    return web.json_response({"data": [{"id": name} for name in "abc"]})


async def test_models_of_all_providers_are_counted() -> None:
    async with listening(provider) as port:
        upstream = Upstream(f"http://127.0.0.1:{port}/v1", KEY)
        async with gateway(openai=upstream, llamacpp=upstream) as where:
            answer = await ask_gateway(check("llamacpp", "openai"), where)
    assert answer == Answer(True, Reason.ANSWERED, "the gateway answers; models: 6", {"models": 6})


async def test_a_wrong_key_a_missing_one_and_a_dead_provider_are_named_next_to_one_that_works() -> None:
    async with listening(provider) as port:
        url = f"http://127.0.0.1:{port}/v1"
        providers = {"groq": Upstream(url, "wrong"), "openai": Upstream(url, KEY), "zai": Upstream(NOWHERE, KEY)}
        async with gateway(**providers, mistral=Upstream(url)) as where:
            answer = await ask_gateway(check("groq", "mistral", "openai", "zai"), where)
    assert answer == Answer(
        True,
        Reason.ANSWERED,
        "the gateway answers; models: 3; provider groq refuses its key, or cannot be reached, provider mistral has no "
        "key, provider zai refuses its key, or cannot be reached: check its key and its URL in spec.providers",
        {"models": 3},
    )


async def test_a_gateway_none_of_whose_providers_works_does_not_respond() -> None:
    async with gateway(zai=Upstream(NOWHERE, KEY)) as where:
        answer = await ask_gateway(check("zai"), where)
    assert (answer.ok, answer.reason) == (False, Reason.PROVIDER_FAILING)
    assert answer.message.startswith("the gateway answers, but provider zai refuses its key, or cannot be reached; ")


async def test_a_gateway_that_lists_none_of_the_selected_services_is_asked_again() -> None:
    async def empty(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"data": []})

    async with listening(empty) as port, gateway(llamacpp=Upstream(f"http://127.0.0.1:{port}/v1", KEY)) as where:
        before = await ask_gateway(check("llamacpp"), where)
        answer = await ask_gateway(check("llamacpp", offered=2), where)
    assert before == Answer(True, Reason.ANSWERED, "the gateway answers; models: 0", {"models": 0})
    assert (answer.ok, answer.reason) == (False, Reason.WAITING_FOR_ANSWER)
    assert "lists no model of spec.serviceSelector yet" in answer.message


async def test_a_gateway_without_providers_answers() -> None:
    async with gateway() as where:
        assert (await ask_gateway(check(), where)).message == "the gateway answers; it has no provider"


async def test_with_tokens_only_the_health_is_asked_for() -> None:
    async with gateway(zai=Upstream(NOWHERE, KEY)) as where:
        answer = await ask_gateway(check("zai", needs_token=True), where)
    assert (answer.ok, answer.reason) == (True, Reason.ANSWERED)


async def test_a_provider_that_hangs_delays_neither_the_others_nor_the_answer() -> None:
    release = asyncio.Event()

    async def page(request: web.BaseRequest) -> web.StreamResponse:
        if request.query.get("provider") == "groq":
            await release.wait()
        return web.json_response({"data": [{"id": "a"}]})

    async with listening(page) as port:
        answer = await ask_gateway(check("groq", "openai", timeout=1.5), lambda _: ("127.0.0.1", port))
        release.set()
    assert answer.ok
    assert "models: 1; provider groq did not answer in time" in answer.message


@pytest.mark.parametrize(
    ("status", "wrong"),
    [(403, "needs a token of the gateway"), (504, "did not answer in time"), (418, "is answered for with HTTP 418")],
)
async def test_what_a_gateway_says_of_a_provider_has_words(status: int, wrong: str) -> None:
    async def page(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=200 if request.path == "/health" else status)

    async with listening(page) as port:
        answer = await ask_gateway(check("openai"), lambda _: ("127.0.0.1", port))
    assert wrong in answer.message


@pytest.mark.parametrize("body", [b"[" * 100_000, b"<html>", b'{"data": 7}', b"x" * 300 * 1024])
async def test_a_list_that_makes_no_sense_or_no_end_counts_as_none(body: bytes) -> None:
    async def page(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body)

    async def health_then_page(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response() if request.path == "/health" else await page(request)

    async with listening(health_then_page) as port:
        answer = await ask_gateway(check("openai"), lambda _: ("127.0.0.1", port))
    assert answer == Answer(True, Reason.ANSWERED, "the gateway answers; models: 0", {"models": 0})


async def test_a_gateway_that_is_ill_says_so() -> None:
    async with scripted(answering("HTTP/1.1 500 Oops\nContent-Length: 0")) as where:
        answer = await ask_gateway(check("openai"), where)
    assert (answer.ok, answer.reason) == (False, Reason.BAD_ANSWER)
    assert "/health with HTTP 500" in answer.message


async def test_nothing_at_the_address_is_no_answer() -> None:
    answer = await ask_gateway(check("openai"), lambda _: ("127.0.0.1", 1))
    assert (answer.ok, answer.reason) == (False, Reason.NO_ANSWER)


async def test_a_redirect_is_not_followed() -> None:
    async with scripted(answering("HTTP/1.1 302 Found\nLocation: http://169.254.169.254/\nContent-Length: 0")) as where:
        answer = await ask_gateway(check("openai"), where)
    assert (answer.ok, answer.reason) == (False, Reason.BAD_ANSWER)


async def test_the_certificate_of_the_secret_is_trusted_and_no_other(tmp_path: Path) -> None:
    own, other = issue("whatever.example"), issue(SERVICE.host)
    async with gateway(served(tmp_path, own)) as where:
        assert (await ask_gateway(check(trust="edge-tls"), where, own.pem)).ok
        refused = await ask_gateway(check(trust="edge-tls"), where, other.pem)
        absent = await ask_gateway(check(trust="edge-tls"), where, None)
    assert (refused.ok, refused.reason) == (False, Reason.BAD_ANSWER)
    assert (absent.ok, absent.reason) == (False, Reason.SECRET_KEY_MISSING)


async def test_a_renewed_certificate_of_the_same_authority_is_trusted(tmp_path: Path) -> None:
    root = issue("root.example", authority=True)
    old, new = issue(SERVICE.host, root), issue(SERVICE.host, root)
    async with gateway(served(tmp_path, old)) as where:
        assert (await ask_gateway(check(trust="edge-tls"), where, new.pem + root.pem)).ok
