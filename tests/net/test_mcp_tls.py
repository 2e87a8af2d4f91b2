from __future__ import annotations

import ssl
import warnings
from typing import TYPE_CHECKING

import pytest

from modelyard.core.reasons import Reason
from modelyard.net.mcp import handshake
from tests.net.certificates import Identity, issue, served
from tests.net.greetings import NAME, SERVICE, check
from tests.support.mcpserver import McpServers

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.core.checks import Answer

ROOT = issue("root.example", authority=True)
MIDDLE = issue("middle.example", ROOT, authority=True)
SELF_SIGNED = issue("whatever.example")
WRONG = (
    "the server does not present the certificate of Secret 'tiny-tls'; "
    "let it serve the tls.crt that is mounted, and restart it after a renewal"
)


async def ask(context: ssl.SSLContext | None, trust: str | None) -> Answer:
    async with McpServers().serve(tls=context) as servers:
        answer = await handshake(check(trust="tiny-tls"), servers.locate, trust)
        assert answer.ok or servers.calls[NAME, "initialize"] == 0
        return answer


async def test_a_self_signed_leaf_of_any_name_is_trusted_when_it_is_the_one_of_the_secret(tmp_path: Path) -> None:
    assert (await ask(served(tmp_path, SELF_SIGNED), SELF_SIGNED.pem)).ok


async def test_a_leaf_is_trusted_without_its_authority(tmp_path: Path) -> None:
    leaf = issue("whatever.example", MIDDLE)
    assert (await ask(served(tmp_path, leaf), leaf.pem)).ok
    assert (await ask(served(tmp_path, leaf, MIDDLE), leaf.pem + MIDDLE.pem + ROOT.pem)).ok


@pytest.mark.parametrize("anchor", [MIDDLE, ROOT], ids=["intermediate", "root"])
async def test_a_renewed_leaf_is_trusted_for_the_name_of_the_service(tmp_path: Path, anchor: Identity) -> None:
    old, new = issue(SERVICE.host, MIDDLE), issue(SERVICE.host, MIDDLE)
    assert (await ask(served(tmp_path, old, MIDDLE), new.pem + anchor.pem)).ok


@pytest.mark.parametrize(
    ("presented", "trust"),
    [
        pytest.param(issue(SERVICE.host), SELF_SIGNED.pem, id="another self-signed leaf"),
        pytest.param(issue(SERVICE.host, ROOT), SELF_SIGNED.pem, id="leaf of a foreign authority"),
        pytest.param(issue(SERVICE.host, SELF_SIGNED), SELF_SIGNED.pem, id="issued by a leaf"),
        pytest.param(issue("other.example", ROOT), SELF_SIGNED.pem + ROOT.pem, id="our authority, another name"),
    ],
)
async def test_another_certificate_is_refused(tmp_path: Path, presented: Identity, trust: str) -> None:
    answer = await ask(served(tmp_path, presented), trust)
    assert (answer.ok, answer.reason, answer.message) == (False, Reason.BAD_ANSWER, WRONG)


async def test_a_certificate_outside_its_dates_is_refused_and_named(tmp_path: Path) -> None:
    expired = issue("whatever.example", days=-1)
    answer = await ask(served(tmp_path, expired), expired.pem)
    expected = "the server presents a certificate outside its dates; renew the certificate in Secret 'tiny-tls'"
    assert (answer.ok, answer.reason, answer.message) == (False, Reason.BAD_ANSWER, expected)


async def test_a_server_without_tls_is_not_spoken_to(tmp_path: Path) -> None:
    answer = await ask(None, SELF_SIGNED.pem)
    expected = "the server does not speak TLS 1.2 or newer; check spec.server.path and spec.server.port"
    assert (answer.ok, answer.reason, answer.message) == (False, Reason.BAD_ANSWER, expected)


async def test_a_server_of_an_old_tls_version_is_not_spoken_to(tmp_path: Path) -> None:
    context = served(tmp_path, SELF_SIGNED)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    assert not (await ask(context, SELF_SIGNED.pem)).ok


@pytest.mark.parametrize(
    ("trust", "reason"),
    [
        (None, Reason.SECRET_NOT_FOUND),
        ("", Reason.SECRET_KEY_MISSING),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", Reason.SECRET_KEY_MISSING),
        (SELF_SIGNED.key_pem, Reason.SECRET_KEY_MISSING),
    ],
)
async def test_without_a_certificate_to_expect_nothing_is_sent(
    tmp_path: Path, trust: str | None, reason: Reason
) -> None:
    answer = await ask(served(tmp_path, SELF_SIGNED), trust)
    assert (answer.ok, answer.reason) == (False, reason)
