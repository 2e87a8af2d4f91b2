"""A new type of check takes one file and one registration. This file is both, and nothing else knows the type."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace

from modelyard.app import answerers
from modelyard.core.checks import Answer, Check
from modelyard.core.grants import Grant
from modelyard.core.reasons import Reason
from modelyard.core.resources import NODE
from modelyard.kinds import ALL
from modelyard.manifests.rbac import rules
from modelyard.net.http_exchange import in_cluster
from modelyard.net.poller import Poller
from tests.kube.scripted import client_of, serving
from tests.manifests.toys import TOY
from tests.net.askedhosts import hosts
from tests.net.upstream import guard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Temperature(Check, frozen=True):
    """How hot a node is."""

    grants: ClassVar[tuple[Grant, ...]] = (Grant(NODE, "proxy", ("get",)),)

    node: str
    every: float = 0.01


class Unregistered(Check, frozen=True):
    """A check whose author forgot something."""

    every: float = 0.01


async def thermometer(check: Temperature) -> Answer:
    return Answer(True, Reason.ANSWERED, "measured", {"node": check.node, "celsius": 54})


@asynccontextmanager
async def polling() -> AsyncIterator[tuple[Poller, asyncio.Queue[str]]]:
    woken: asyncio.Queue[str] = asyncio.Queue()
    poller = Poller({Temperature: thermometer}, woken.put_nowait, lane_of=hash)
    task = asyncio.create_task(poller.run())
    try:
        async with asyncio.timeout(60):
            yield poller, woken
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_registered_check_is_polled_and_wakes_its_reader():
    warm = Temperature("rack-1")
    async with polling() as (poller, woken):
        assert poller.look("reader", [warm]) == {}
        assert await woken.get() == "reader"
        answer = Answer(True, Reason.ANSWERED, "measured", {"node": "rack-1", "celsius": 54})
        assert poller.look("reader", [warm]) == {warm: answer}


async def test_a_check_that_is_not_registered_is_a_bug_that_holds_up_no_other():
    async with polling() as (poller, woken):
        poller.look("forgetful", [Unregistered()])
        poller.look("reader", [Temperature("rack-1")])
        assert {await woken.get(), await woken.get()} == {"forgetful", "reader"}
        assert poller.look("forgetful", [Unregistered()])[Unregistered()].reason is Reason.INTERNAL_ERROR


def test_the_role_of_the_operator_follows_from_the_type():
    asking = replace(TOY, asks=(Temperature,))
    granted = [rule["verbs"] for rule in rules([asking]) if "nodes/proxy" in rule["resources"]]
    assert granted == [["get"]]


async def test_every_check_that_a_kind_asks_is_registered():
    async with serving() as server, client_of(server) as client:
        registered = answerers(client, guard(), hosts(), in_cluster)
    assert {check for kind in ALL for check in kind.asks} == registered.keys()
