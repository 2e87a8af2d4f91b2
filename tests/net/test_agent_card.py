"""The card of an agent: read at two paths, cut and cleaned, and never believed where it would lead clients astray."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.checks import Answer
from modelyard.core.reasons import Reason
from modelyard.net.addresses import Permitted, permitted
from modelyard.net.agent_card import fetch_card
from tests.net.cards import CARD, SERVICE, check, publishing
from tests.net.certificates import issue, served
from tests.net.greetings import answering, request, scripted

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.core.checks.agent_card import AgentCard
    from modelyard.net.http_exchange import Locate

Json = dict[str, Any]

NOBODY = Permitted()
REDUCED = {
    **CARD,
    "capabilities": {"streaming": True, "pushNotifications": False, "stateTransitionHistory": False},
    "skills": [{**CARD["skills"][0], "examples": [], "inputModes": [], "outputModes": []}],
    "skillsNames": "List events",
}


async def ask(where: Locate, given: AgentCard | None = None) -> Answer:
    return await fetch_card(given or check(), NOBODY, where)


async def test_a_card_is_read_at_the_newer_path() -> None:
    async with publishing(newer=CARD, older={**CARD, "name": "Old"}) as where:
        assert await ask(where) == Answer(True, Reason.ANSWERED, "the agent published its card", REDUCED)


@pytest.mark.parametrize("newer", [None, b"<html>Welcome</html>", b"{}"], ids=["absent", "a web page", "no card"])
async def test_an_older_agent_is_read_at_the_older_path(newer: bytes | None) -> None:
    async with publishing(**({"newer": newer} if newer else {}), older=CARD) as where:
        assert (await ask(where)).value == REDUCED


async def test_a_card_of_version_1_has_its_url_in_an_interface() -> None:
    interfaces = [{"url": "http://calendar:8080/a2a", "protocolBinding": "JSONRPC"}, {"url": "http://calendar:9000/"}]
    card = {name: value for name, value in CARD.items() if name != "url"} | {"supportedInterfaces": interfaces}
    async with publishing(newer=card) as where:
        assert (await ask(where)).value["url"] == "http://calendar:8080/a2a"


async def test_a_card_may_lack_most_fields_or_hold_nulls_and_a_single_skill() -> None:
    card = {"name": "Tiny", "description": None, "url": None, "capabilities": None, "skills": {"name": "one"}}
    async with publishing(newer=card) as where:
        answer = await ask(where)
    assert (answer.ok, answer.value["skillsNames"], answer.value["url"]) == (True, "one", "")


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (b"", "the agent sends a card that is not JSON; look at the logs of its pods"),
        (b"<html>", "the agent sends a card that is not JSON; look at the logs of its pods"),
        (b"\xff\xfe", "the agent sends a card that is not JSON; look at the logs of its pods"),
        (b"{" + b'"a":{' * 20_000, "the agent sends a card that is not JSON; look at the logs of its pods"),
        (b"[]", "the agent sends a card that breaks the protocol (Expected `object`, got `array`)"),
        (b'{"version": "1"}', "breaks the protocol (Object missing required field `name`)"),
        (b'{"name": 7}', "breaks the protocol (Expected `str`, got `int` - at `$.name`)"),
        (b'{"name": "x", "skills": [{"id": 1, "name": "a"}]}', "at `$.skills[0].id`"),
    ],
    ids=["empty", "HTML", "not UTF-8", "deep", "a list", "no name", "a number as name", "a broken skill"],
)
async def test_a_broken_card_is_named(page: bytes, message: str) -> None:
    async with publishing(newer=page) as where:
        answer = await ask(where)
    assert (answer.ok, answer.reason) == (False, Reason.BAD_ANSWER)
    assert message in answer.message


async def test_a_card_of_ten_megabytes_is_not_read_to_its_end() -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n{")
        while sent < 10_000_000:
            writer.write(b" " * 65536)
            await writer.drain()
            sent += 65536

    async with scripted(endless) as where:
        answer = await ask(where)
    assert answer.message == "the agent answers with more than 256 KiB; let it publish a shorter card"
    assert sent < 10_000_000


async def test_what_a_card_says_is_cut_and_cleaned() -> None:
    skills = [{"name": f"skill {number}", "tags": ["t"] * 100} for number in range(300)]
    card = {**CARD, "name": "\x1b[31mred" + "x" * 1000, "description": "y" * 9000, "skills": skills}
    async with publishing(newer=card) as where:
        value = (await ask(where)).value
    assert (len(value["name"]), value["name"][:7], len(value["description"])) == (128, "[31mred", 2048)
    assert (len(value["skills"]), len(value["skills"][0]["tags"]), len(value["skillsNames"])) == (64, 64, 2048)


@pytest.mark.parametrize("name", ["silent", "dripping"])
async def test_a_slow_agent_costs_its_time_limit_and_no_more(name: str) -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await request(reader)
        await asyncio.sleep(60)

    async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with scripted(silent if name == "silent" else dripping) as where:
        began = time.monotonic()
        answer = await ask(where, check(timeout=0.5))
        took = time.monotonic() - began
    assert (answer.reason, 0.4 < took < 30) == (Reason.NO_ANSWER, True)


@pytest.mark.parametrize(
    ("head", "reason", "message"),
    [
        ("401 Unauthorized", Reason.UNAUTHORIZED, "wants credentials for its card (HTTP 401)"),
        ("403 Forbidden", Reason.UNAUTHORIZED, "wants credentials for its card (HTTP 403)"),
        ("404 Not Found", Reason.BAD_ANSWER, "has no card at /.well-known/agent-card.json or /.well-known/agent.json"),
        ("302 Found\nLocation: http://169.254.169.254/", Reason.BAD_ANSWER, "redirects from its card (HTTP 302)"),
        ("500 Oops", Reason.BAD_ANSWER, "answered with HTTP 500 instead of its card"),
    ],
)
async def test_an_agent_that_refuses_is_named(head: str, reason: Reason, message: str) -> None:
    async with scripted(answering(f"HTTP/1.1 {head}\nContent-Length: 0")) as where:
        answer = await ask(where)
    assert (answer.ok, answer.reason) == (False, reason)
    assert message in answer.message


async def test_nothing_listens() -> None:
    answer = await ask(lambda _: ("127.0.0.1", 1))
    assert answer.message == "the agent did not answer; check that it listens on spec.port on all interfaces"


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:8080/",
        "http://localhost:9999/",
        "http://0.0.0.0:8080/",
        "http://[::1]:8080/",
        "http://2130706433/",
        "http://metadata.google.internal/",
    ],
)
@pytest.mark.parametrize("place", ["url", "supportedInterfaces", "additionalInterfaces"])
async def test_a_card_that_points_at_a_forbidden_address_is_refused(url: str, place: str) -> None:
    card = {**CARD, place: url if place == "url" else [{"url": url}]}
    async with publishing(newer=card) as where:
        answer = await ask(where)
    assert (answer.ok, answer.reason, answer.value) == (False, Reason.ADDRESS_NOT_ALLOWED, {})
    assert answer.message.startswith("the agent sends clients to ")
    assert answer.message.endswith("let it publish the value of A2A_AGENT_URL, or set spec.card.url")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "calendar", "http://", "http://a:99999/", "javascript:alert(1)"])
async def test_a_url_that_no_client_can_follow_is_refused(url: str) -> None:
    async with publishing(newer={**CARD, "url": url}) as where:
        answer = await ask(where)
    assert (
        answer.message == "the agent names no http or https URL in its card; let it publish the value of A2A_AGENT_URL"
    )


async def test_an_administrator_can_permit_an_address() -> None:
    async with publishing(newer={**CARD, "url": "http://127.0.0.1:8080/"}) as where:
        assert (await fetch_card(check(), permitted(["127.0.0.0/8"]), where)).ok


async def test_a_documentation_url_that_leads_astray_is_not_shown() -> None:
    async with publishing(newer={**CARD, "documentationUrl": "http://169.254.169.254/"}) as where:
        answer = await ask(where)
    assert (answer.ok, answer.value["documentationUrl"]) == (True, "")


async def test_no_url_of_a_card_is_followed() -> None:
    calls: list[str] = []

    async def trap(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        calls.append(await request(reader))

    async with scripted(trap) as lure:
        _, port = lure(SERVICE)
        url = f"http://127.0.0.1:{port}/"
        card = {**CARD, "url": url, "documentationUrl": url, "iconUrl": url, "provider": {"url": url}}
        async with publishing(newer=card) as where:
            assert (await fetch_card(check(), permitted(["127.0.0.1"]), where)).ok
    assert calls == []


async def test_an_agent_with_tls_must_present_the_certificate_of_its_secret(tmp_path: Path) -> None:
    ours, other = issue("whatever.example"), issue(SERVICE.host)
    async with publishing(served(tmp_path, ours), newer=CARD) as where:
        trusted = await fetch_card(check(trust="calendar-tls"), NOBODY, where, ours.pem)
        distrusted = await fetch_card(check(trust="calendar-tls"), NOBODY, where, other.pem)
    assert trusted.value == REDUCED
    assert "does not present the certificate of Secret 'calendar-tls'" in distrusted.message


async def test_an_authority_of_the_secret_is_trusted_for_the_name_of_the_service(tmp_path: Path) -> None:
    root = issue("root.example", authority=True)
    old, new = issue(SERVICE.host, root), issue(SERVICE.host, root)
    async with publishing(served(tmp_path, old), newer=CARD) as where:
        assert (await fetch_card(check(trust="calendar-tls"), NOBODY, where, new.pem + root.pem)).ok


async def test_an_agent_is_never_asked_over_an_unverified_connection() -> None:
    async with publishing(newer=CARD) as where:
        missing = await fetch_card(check(trust="calendar-tls"), NOBODY, where, None)
        empty = await fetch_card(check(trust="calendar-tls"), NOBODY, where, "")
        plain = await fetch_card(check(trust="calendar-tls"), NOBODY, where, issue("a.example").pem)
    assert [answer.reason for answer in (missing, empty, plain)] == [
        Reason.SECRET_NOT_FOUND,
        Reason.SECRET_KEY_MISSING,
        Reason.BAD_ANSWER,
    ]


async def test_an_expired_certificate_is_to_be_renewed(tmp_path: Path) -> None:
    expired = issue(SERVICE.host, days=-1)
    async with publishing(served(tmp_path, expired), newer=CARD) as where:
        answer = await fetch_card(check(trust="calendar-tls"), NOBODY, where, expired.pem)
    assert answer.message.endswith("renew the certificate in Secret 'calendar-tls'")
