"""Who may call a daemon: by network, by token, over TLS."""

from __future__ import annotations

import ssl
from contextlib import suppress
from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest

from modelyard.host.access import NOT_PUBLIC, Access
from modelyard.host.refusals import Refusal
from modelyard.local.pki import Authority
from tests.host.daemons import running

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.host.access import Network


def is_allowed(remote: str | None, networks: tuple[Network, ...], tmp_path: Path) -> bool:
    with suppress(Refusal):
        Access(networks, tmp_path / "token").check_network(remote)
        return True
    return False


@pytest.mark.parametrize(
    "remote", ["127.0.0.1", "10.1.2.3", "192.168.1.9", "100.100.1.1", "::ffff:10.1.2.3", "fd00::1", "fe80::1%eth0"]
)
def test_networks_that_are_not_public_may_call_by_default(remote: str, tmp_path: Path) -> None:
    assert is_allowed(remote, NOT_PUBLIC, tmp_path)


@pytest.mark.parametrize("remote", ["8.8.8.8", "::ffff:8.8.8.8", "2001:4860:4860::8888", "100.63.0.1", None])
def test_others_may_not(remote: str | None, tmp_path: Path) -> None:
    assert not is_allowed(remote, NOT_PUBLIC, tmp_path)


def test_named_networks_replace_the_default(tmp_path: Path) -> None:
    networks = (ip_network("198.51.100.0/24"),)
    assert is_allowed("198.51.100.7", networks, tmp_path)
    assert not is_allowed("127.0.0.1", networks, tmp_path)


@pytest.mark.parametrize(
    "header", ["", "secret", "Basic secret", "Bearer", "Bearer wrong", "Bearer secret more", "Bearer \udcff"]
)
def test_a_header_without_the_token_is_refused(header: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with pytest.raises(Refusal) as refused:
        Access((), tmp_path / "token").check_token(header)
    assert (refused.value.status, refused.value.problem.code) == (401, "Unauthorized")


@pytest.mark.parametrize("header", ["Bearer secret", "bearer secret", "Bearer  secret "])
def test_the_token_of_the_file_is_accepted(header: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    Access((), tmp_path / "token").check_token(header)


async def test_a_wrong_network_and_plain_http_get_nothing_of_a_daemon_with_tls(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path / "pki", "test")
    files = authority.store("host", authority.server("host", ["127.0.0.1"]))
    trust = ssl.create_default_context(cafile=str(authority.certificate_file))
    options = ("--allow=198.51.100.0/24", f"--tls-cert={files.certificate}", f"--tls-key={files.key}")
    async with running(tmp_path / "daemon", *options, trust=trust) as daemon:
        for path in ("/healthz", "/admin/models", "/v1/models", "/metrics"):
            assert (await daemon.call("GET", path)).code == (403, "NetworkNotAllowed")
        daemon.url = daemon.url.replace("https://", "http://")
        assert not await daemon.answers()


async def test_without_a_token_file_a_token_is_made_that_only_this_user_can_read(tmp_path: Path) -> None:
    async with running(tmp_path, makes_token=True) as daemon:
        file = daemon.state / "token"
        assert file.stat().st_mode & 0o777 == 0o600
        assert (await daemon.call("GET", "/admin/models", token=file.read_text().strip())).status == 200
