"""How hosts are reached: tokens, certificates, redirects, names and addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from msgspec.structs import replace

from modelyard.app import answerers, callers
from modelyard.core.hosts import (
    HostProbe,
    LoadModel,
    SecretKey,
    UnloadModel,
)
from modelyard.core.reasons import Reason
from modelyard.net.addresses import permitted
from modelyard.net.hosts.hosts import DELETED_SECONDS, Hosts
from modelyard.net.http_exchange import in_cluster
from modelyard.net.hysteresis import BAD_IN_A_ROW
from tests.kube import scripted
from tests.net.askedhosts import Secrets, at, hosts, replying
from tests.net.certificates import issue, served
from tests.net.upstream import Names, guard
from tests.support.hostdaemon import HostDaemon
from tests.weights.fileserver import serving

if TYPE_CHECKING:
    from pathlib import Path


TOKEN = SecretKey("mac", "token")
AUTHORITY = SecretKey("mac", "ca.crt")


async def test_the_token_is_read_for_each_request_so_that_it_may_rotate():
    secrets = Secrets(token="first\n")
    async with HostDaemon(token="first").serving() as daemon:
        asking, check = hosts(secrets), HostProbe(at(daemon.port, token=TOKEN))
        assert (await asking.probe(check)).ok
        daemon.token = "second"
        assert (await asking.probe(check)).reason is Reason.UNAUTHORIZED
        secrets.values["token"] = "second"
        assert (await asking.probe(check)).ok
        secrets.values["token"] = "two\nlines"
        assert (await asking.probe(check)).reason is Reason.SECRET_KEY_MISSING


async def test_a_secret_that_is_deleted_is_used_for_a_moment_so_that_models_can_be_unloaded():
    secrets, now = Secrets(token="first"), [0.0]
    async with HostDaemon(token="first").serving() as daemon:
        address = at(daemon.port, token=TOKEN)
        asking = Hosts(guard(Names(mac=[["127.0.0.1"]])), secrets.read, lambda: now[0])
        assert (await asking.probe(HostProbe(address))).ok
        del secrets.values["token"]
        now[0] = DELETED_SECONDS
        assert (await asking.unload(UnloadModel(address, "org/chat", "default/chat"))).ok
        now[0] += 1
        assert (await asking.probe(HostProbe(address))).reason is Reason.SECRET_NOT_FOUND


async def test_a_redirect_never_takes_the_token_elsewhere():
    seen: list[str] = []

    async def thief(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization", ""))
        return web.json_response([])

    async with serving(thief) as elsewhere:
        moved = {"Location": f"http://mac.example:{elsewhere}/"}
        async with serving(replying(status=307, headers=moved)) as port:
            asking = hosts(Secrets(token="secret"))
            assert (await asking.probe(HostProbe(at(port, token=TOKEN)))).reason is Reason.BAD_ANSWER
            call = LoadModel(at(port, token=TOKEN), "chat", "default/chat")
            assert (await asking.load(call)).reason is Reason.BAD_ANSWER
    assert seen == []


async def test_a_certificate_must_be_of_the_given_authority_and_for_the_name(tmp_path: Path):
    authority, other = (issue(name, authority=True) for name in ("ours", "theirs"))
    tls = served(tmp_path, issue("mac.internal", authority))
    async with HostDaemon().serving(tls) as daemon:
        address = at(daemon.port, "https", authority=AUTHORITY)
        named = replace(address, server_name="mac.internal")
        right, wrong, none = (hosts(Secrets(ca=text)) for text in (authority.pem, other.pem, "nonsense"))
        assert (await right.probe(HostProbe(named))).ok
        assert "spec.tls" in (await right.probe(HostProbe(address))).message
        assert "spec.tls" in (await wrong.probe(HostProbe(named))).message
        assert (await none.probe(HostProbe(named))).reason is Reason.SECRET_KEY_MISSING
        assert "spec.tls" in (await hosts().probe(HostProbe(at(daemon.port, "https")))).message


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "10.0.0.1", "127.0.0.2", "100.64.0.7", "fe80::1", "::1", "0.0.0.0"]
)
async def test_an_address_that_was_not_allowed_is_refused_with_one_message(address: str):
    answer = await hosts(names=Names(mac=[[address]])).probe(HostProbe(at(1)))
    assert answer.reason is Reason.ADDRESS_NOT_ALLOWED
    assert answer.message == (
        "the host leads to an address that the operator does not dial; use a public address in spec.endpoint, or let "
        "an administrator add it to --host-networks"
    )


async def test_an_address_for_pods_has_to_be_allowed_as_well():
    async with HostDaemon().serving() as daemon:
        refused = await hosts().probe(HostProbe(at(daemon.port, published="10.96.0.1")))
        assert refused.reason is Reason.ADDRESS_NOT_ALLOWED
        public = await hosts().probe(HostProbe(at(daemon.port, published="8.8.8.8")))
        assert public.value["addresses"] == ("8.8.8.8",)


async def test_a_name_that_no_longer_resolves_keeps_the_address_from_before():
    lookups = [["127.0.0.1"]]

    async def resolve(host: str, port: int) -> list[str]:
        if not lookups:
            raise OSError("no such host")
        return lookups.pop()

    async with HostDaemon().serving() as daemon:
        asking, check = Hosts(replace(guard(), resolve=resolve), Secrets().read), HostProbe(at(daemon.port))
        answers = [await asking.probe(check) for _ in range(2)]
    assert [answer.value["addresses"] for answer in answers] == [("127.0.0.1",)] * 2


def anywhere_here(*lookups: list[str]) -> Hosts:
    """Return what asks hosts that have these addresses of this machine, one lookup after the other."""
    names = Names(mac=list(lookups))
    return Hosts(replace(guard(names), exceptions=permitted(["127.0.0.0/8"])), Secrets().read)


async def test_of_several_addresses_the_one_that_answers_is_probed_and_published_while_it_is_there():
    asking = anywhere_here(["127.0.0.1"], ["127.0.0.0", "127.0.0.1"], ["127.0.0.1", "127.0.0.0"])
    async with HostDaemon().serving() as daemon:
        answers = [await asking.probe(HostProbe(at(daemon.port))) for _ in range(3)]
    assert [answer.value["addresses"] for answer in answers] == [("127.0.0.1",)] * 3


async def test_an_address_that_does_not_answer_is_replaced_before_the_host_counts_as_gone():
    asking = anywhere_here(["127.0.0.0", "127.0.0.1"])
    async with HostDaemon().serving() as daemon:
        answers = [await asking.probe(HostProbe(at(daemon.port))) for _ in range(BAD_IN_A_ROW)]
    assert [answer.ok for answer in answers] == [False, False, True]
    assert answers[-1].value["addresses"] == ("127.0.0.1",)


async def test_a_host_is_called_at_the_address_that_answers_its_probes():
    async with HostDaemon().serving() as daemon, scripted.serving() as server, scripted.client_of(server) as client:
        address = at(daemon.port)
        asking = anywhere_here(["127.0.0.0", "127.0.0.1"])
        probe, load = answerers(client, guard(), asking, in_cluster)[HostProbe], callers(asking)[LoadModel]
        while not (await probe(HostProbe(address))).ok:
            pass
        assert (await load(LoadModel(address, "org/chat", "default/chat"))).ok


async def test_an_address_that_changes_is_followed():
    asking = anywhere_here(["127.0.0.0"], ["127.0.0.1"])
    async with HostDaemon().serving() as daemon:
        answers = [await asking.probe(HostProbe(at(daemon.port))) for _ in range(2)]
    assert [answer.ok for answer in answers] == [False, True]


async def test_a_daemon_that_is_gone_says_nothing_of_another_one_on_the_same_machine():
    asking = anywhere_here(["127.0.0.1", "127.0.0.2"])
    async with HostDaemon().serving() as gone:
        pass
    async with HostDaemon().serving() as daemon:
        answers = [await asking.probe(HostProbe(at(port))) for port in (gone.port, gone.port, daemon.port)]
    assert [answer.ok for answer in answers] == [False, False, True]
