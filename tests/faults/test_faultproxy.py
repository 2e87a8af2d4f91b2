"""Every fault does what it says, and nothing else."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64decode
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yaml

from tests.support.accounts import powerful_account
from tests.support.calls import WRITES, Match
from tests.support.faultproxy import FaultProxy, fault_proxy
from tests.support.faults import FOREVER, Answer, CloseWatch, Cut, Delay, DropEvents, Hold, HoldEvents, Kill, Rule

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from modelyard.local.cluster import Cluster

_CREATES = Match(verbs=frozenset({"create"}), resource="configmaps")
_WATCHES = Match(verbs=frozenset({"watch"}), resource="configmaps")
_SECONDS = 90.0


@pytest.fixture
async def proxy(cluster: Cluster, tmp_path: Path) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(cluster.controlplane, tmp_path / "proxy") as running:
        yield running


@pytest.fixture
async def client(cluster: Cluster, proxy: FaultProxy, namespace: str) -> AsyncIterator[Client]:
    kubeconfig = proxy.kubeconfig_for(await powerful_account(cluster.controlplane, namespace, "tester"))
    async with connect(kubeconfig) as session:
        yield Client(session, namespace)


@asynccontextmanager
async def connect(kubeconfig: Path) -> AsyncIterator[aiohttp.ClientSession]:
    content = yaml.safe_load(kubeconfig.read_text())
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    authority = b64decode(cluster["certificate-authority-data"]).decode()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=authority))
    headers = {"Authorization": f"Bearer {user['token']}", "User-Agent": "tester/1"}
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    async with aiohttp.ClientSession(
        cluster["server"], connector=connector, headers=headers, timeout=timeout
    ) as session:
        yield session


class Client:
    """A client that tries everything exactly once."""

    def __init__(self, session: aiohttp.ClientSession, namespace: str) -> None:
        self._session = session
        self.path = f"/api/v1/namespaces/{namespace}/configmaps"

    async def create(self, name: str) -> int:
        async with self._session.post(self.path, json={"metadata": {"name": name}}) as response:
            await response.read()
            return response.status

    async def get(self, name: str) -> tuple[int, dict[str, Any], dict[str, str]]:
        async with self._session.get(f"{self.path}/{name}") as response:
            return response.status, await response.json(), dict(response.headers)

    async def exists(self, name: str) -> bool:
        return (await self.get(name))[0] == 200

    async def watch(self) -> AsyncGenerator[dict[str, Any], None]:
        """Watch from now on: the first thing yielded is an empty dict, once the watch is open."""
        async with self._session.get(self.path) as response:
            revision = (await response.json())["metadata"]["resourceVersion"]
        query = {"watch": "true", "resourceVersion": revision}
        async with self._session.get(self.path, params=query) as response:
            yield {}
            async for line in response.content:
                yield json.loads(line)


def _names(events: list[dict[str, Any]]) -> list[str]:
    return [event["object"]["metadata"]["name"] for event in events]


async def test_without_rules_everything_passes_and_is_in_the_ledger(proxy: FaultProxy, client: Client) -> None:
    assert await client.create("a") == 201
    assert await client.create("a") == 409
    first, second = proxy.calls(_CREATES)
    assert (first.status, second.status) == (201, 409)
    assert first.body == second.body
    assert first.call.user_agent == "tester/1"
    assert first.delivered


async def test_a_cut_request_never_reaches_the_server(proxy: FaultProxy, client: Client) -> None:
    proxy.arm(Rule(_CREATES, Cut()))
    with pytest.raises(aiohttp.ClientError):
        await client.create("a")
    assert not await client.exists("a")
    assert [entry.status for entry in proxy.calls(_CREATES)] == [0]


async def test_a_cut_after_commit_leaves_the_client_in_doubt(proxy: FaultProxy, client: Client) -> None:
    proxy.arm(Rule(_CREATES, Cut(after_commit=True)))
    with pytest.raises(aiohttp.ClientError):
        await client.create("a")
    assert await client.exists("a")
    assert [(entry.status, entry.delivered) for entry in proxy.calls(_CREATES)] == [(201, False)]


async def test_a_rule_strikes_by_count(proxy: FaultProxy, client: Client) -> None:
    armed = proxy.arm(Rule(_CREATES, Answer(500), after=1, times=2))
    assert [await client.create(name) for name in "abcd"] == [201, 500, 500, 201]
    assert (armed.fitting, armed.strikes) == (4, 2)


async def test_the_first_rule_that_is_due_strikes_and_all_count(proxy: FaultProxy, client: Client) -> None:
    first, second = proxy.arm(Rule(_CREATES, Answer(429))), proxy.arm(Rule(_CREATES, Answer(503), times=2))
    assert [await client.create(name) for name in "abc"] == [429, 503, 201]
    assert (first.strikes, second.strikes) == (1, 1)


async def test_disarmed_rules_do_no_harm(proxy: FaultProxy, client: Client) -> None:
    proxy.arm(Rule(Match(), Cut(), times=FOREVER))
    proxy.disarm()
    assert await client.create("a") == 201


async def test_an_injected_answer_looks_like_one_of_the_server(proxy: FaultProxy, client: Client) -> None:
    proxy.arm(Rule(Match(name="a"), Answer(429, "TooManyRequests", retry_after=7)))
    status, body, headers = await client.get("a")
    assert (status, body["kind"], body["reason"], body["code"]) == (429, "Status", "TooManyRequests", 429)
    assert headers["Retry-After"] == "7"


@pytest.mark.parametrize("after_commit", [False, True])
async def test_a_held_request_goes_on_when_the_gate_opens(
    proxy: FaultProxy, client: Client, after_commit: bool
) -> None:
    gate = asyncio.Event()
    armed = proxy.arm(Rule(_CREATES, Hold(gate, after_commit=after_commit)))
    pending = asyncio.create_task(client.create("a"))
    await armed.struck()
    if after_commit:
        async with asyncio.timeout(_SECONDS):
            while not await client.exists("a"):
                await asyncio.sleep(0.01)
    else:
        assert not await client.exists("a")
    assert not pending.done()
    gate.set()
    assert await pending == 201


async def test_a_delayed_request_arrives(proxy: FaultProxy, client: Client) -> None:
    armed = proxy.arm(Rule(_CREATES, Delay(0.05)))
    assert await client.create("a") == 201
    assert armed.strikes == 1


@pytest.mark.parametrize("after_commit", [False, True])
async def test_a_kill_ends_the_process_before_or_after_the_write(
    proxy: FaultProxy, client: Client, after_commit: bool
) -> None:
    killed: list[str] = []
    writes = Match(verbs=WRITES, user_agent="tester")
    proxy.arm(Rule(writes, Kill(lambda: killed.append("tester"), after_commit=after_commit), after=1))
    assert await client.create("a") == 201
    with pytest.raises(aiohttp.ClientError):
        await client.create("b")
    assert killed == ["tester"]
    assert await client.exists("b") is after_commit


async def test_a_watch_passes_events_as_they_happen(proxy: FaultProxy, client: Client) -> None:
    events = client.watch()
    await anext(events)
    await client.create("a")
    assert _names([await anext(events)]) == ["a"]
    await events.aclose()


async def test_a_held_watch_loses_nothing(proxy: FaultProxy, client: Client) -> None:
    gate = asyncio.Event()
    armed = proxy.arm(Rule(_WATCHES, HoldEvents(gate)))
    events = client.watch()
    await anext(events)
    for name in "ab":
        await client.create(name)
    pending = asyncio.ensure_future(anext(events))
    await armed.struck()
    assert not pending.done()
    gate.set()
    assert _names([await pending, await anext(events)]) == ["a", "b"]
    await events.aclose()


async def test_a_dropped_event_is_lost(proxy: FaultProxy, client: Client) -> None:
    proxy.arm(Rule(_WATCHES, DropEvents(), after=1))
    events = client.watch()
    await anext(events)
    for name in "abc":
        await client.create(name)
    assert _names([await anext(events), await anext(events)]) == ["a", "c"]
    await events.aclose()


async def test_a_watch_is_closed_before_an_event(proxy: FaultProxy, client: Client) -> None:
    proxy.arm(Rule(_WATCHES, CloseWatch(), after=1))
    events = client.watch()
    await anext(events)
    for name in "ab":
        await client.create(name)
    assert _names([event async for event in events]) == ["a"]


async def test_a_watch_ends_by_an_error_event(proxy: FaultProxy, client: Client) -> None:
    proxy.arm(Rule(_WATCHES, CloseWatch(410, "Expired")))
    events = client.watch()
    await anext(events)
    await client.create("a")
    (event,) = [event async for event in events]
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_open_watches_are_broken_on_demand(proxy: FaultProxy, client: Client) -> None:
    events = client.watch()
    await anext(events)
    assert proxy.close_watches(Match(resource="secrets")) == 0
    assert proxy.close_watches(_WATCHES) == 1
    with pytest.raises(aiohttp.ClientError):
        await anext(events)


async def test_a_kubeconfig_with_a_client_certificate_is_refused(cluster: Cluster, proxy: FaultProxy) -> None:
    with pytest.raises(ValueError, match="client certificate"):
        proxy.kubeconfig_for(cluster.kubeconfig)
