"""Who is let in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from modelyard.page.access import OneTimeToken, Origins, Refused, Session, Sessions

HOST = {"Host": "127.0.0.1:8080"}
OWN = {**HOST, "Origin": "http://127.0.0.1:8080"}
ORIGINS = Origins({"http://127.0.0.1:8080", "http://localhost:8080"})
YARD: Any = SimpleNamespace(is_rejected=False)
REJECTED: Any = SimpleNamespace(is_rejected=True)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", HOST),
        ("GET", {"Host": "LOCALHOST:8080"}),
        ("GET", {**HOST, "Sec-Fetch-Site": "none"}),
        ("POST", {**OWN, "Sec-Fetch-Site": "same-origin"}),
    ],
)
def test_requests_of_our_own_pages_pass(method: str, headers: dict[str, str]) -> None:
    ORIGINS.check(method, headers)


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 421),
        ("GET", {"Host": "evil.example:8080"}, 421),
        ("GET", {"Host": "127.0.0.1:9090"}, 421),
        ("GET", {**HOST, "Origin": "https://evil.example"}, 403),
        ("GET", {**HOST, "Origin": "http://127.0.0.1:9090"}, 403),
        ("GET", {**HOST, "Origin": "null"}, 403),
        ("GET", {**HOST, "Sec-Fetch-Site": "cross-site"}, 403),
        ("GET", {**HOST, "Sec-Fetch-Site": "same-site"}, 403),
        ("POST", HOST, 403),
        ("POST", {**HOST, "Origin": "http://localhost:8080"}, 403),
    ],
)
def test_requests_of_others_are_refused(method: str, headers: dict[str, str], status: int) -> None:
    with pytest.raises(Refused) as refused:
        ORIGINS.check(method, headers)
    assert refused.value.status == status


def test_a_link_of_another_site_may_open_the_page_itself() -> None:
    ORIGINS.check("GET", {**HOST, "Sec-Fetch-Site": "cross-site"}, opens=True)


def test_a_token_lets_in_once() -> None:
    token = OneTimeToken()
    assert not token.use("")
    assert not token.use(token.value[:-1])
    assert token.use(token.value)
    assert not token.use(token.value)


def test_two_tokens_are_never_the_same() -> None:
    assert OneTimeToken().value != OneTimeToken().value
    assert len(OneTimeToken().value) >= 43


async def test_a_session_ends_when_it_is_not_used_for_long() -> None:
    now = 0.0
    ended: list[str] = []
    sessions = Sessions(lambda: now)

    async def close() -> None:
        ended.append("first")

    first = await sessions.open(Session(YARD, close=close))
    now = 12 * 3600.0
    assert sessions.find(first)
    now *= 2.1
    assert sessions.find(first) is None
    await sessions.open(Session(YARD))
    assert ended == ["first"]


async def test_of_too_many_sessions_the_one_used_longest_ago_ends() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    secrets = []
    for _ in range(64):
        now += 1
        secrets.append(await sessions.open(Session(YARD)))
    assert sessions.find(secrets[0])
    now += 1
    await sessions.open(Session(YARD))
    assert [sessions.find(secret) is None for secret in secrets[:3]] == [False, True, False]


async def test_a_bearer_token_without_a_cookie_finds_its_session() -> None:
    sessions = Sessions()
    session = Session(YARD, "ann", "token-of-ann")
    await sessions.open(session)
    await sessions.open(Session(YARD))
    assert sessions.of_bearer("token-of-ann") is session
    assert sessions.of_bearer("token-of-bob") is None


async def test_a_session_whose_user_the_cluster_does_not_know_any_more_is_none() -> None:
    sessions = Sessions()
    assert sessions.find(await sessions.open(Session(REJECTED, "ann", "token-of-ann"))) is None


async def test_a_session_of_this_machine_outlives_its_credentials() -> None:
    sessions = Sessions()
    assert sessions.find(await sessions.open(Session(REJECTED)))


async def test_a_session_that_follows_a_stream_is_in_use() -> None:
    now = 0.0
    sessions, session = Sessions(lambda: now), Session(YARD)
    secret = await sessions.open(session)
    now = 11 * 3600.0
    sessions.touch(session)
    now = 22 * 3600.0
    assert sessions.find(secret)


async def test_a_stream_learns_that_its_session_was_ended() -> None:
    sessions, session = Sessions(), Session(YARD)
    secret = await sessions.open(session)
    assert not session.is_over
    await sessions.end(secret)
    assert session.is_over
