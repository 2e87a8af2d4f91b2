"""Canaries on one machine: real routers between real servers, under clients that never stop asking."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from modelyard.kinds.shared.envoy_router import TRACK_HEADER
from tests.e2e.yards import NAMED, SECONDS, Yard, all_processes, condition, in_time, zerfoo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Json = dict[str, Any]

KIND = "zerfooinferenceservice"
CLIENTS = 50
FEWER = 20
"""Where it is not about the load: every answer takes time of all the machine."""
FEW_ERRORS = {"weight": 20, "duration": "10m", "maxErrorRate": "5%", "minRequests": 20}


@pytest.fixture(scope="module")
async def canaries(zerfoo_yard: Yard) -> Yard:
    """The machine with services for all tests, which start together: each takes a while and next to no CPU."""
    await zerfoo_yard.apply(
        zerfoo("busy"),
        zerfoo("hard", canary={"modelRef": "new", "weight": 50}),
        zerfoo("unlucky", canary={"modelRef": "broken", "steps": [FEW_ERRORS], "promote": "Auto"}),
        zerfoo("lucky"),
    )
    return zerfoo_yard


async def patch(yard: Yard, name: str, spec: str) -> None:
    await yard.kubectl("patch", KIND, name, "--type=merge", "-p", f'{{"spec": {spec}}}')


async def until_split(yard: Yard, name: str, weight: int | None) -> Json:
    """Wait until the canary has this weight, in force; None: until it and the routers are gone."""

    def is_so(body: Json) -> bool:
        status = body.get("status", {})
        shares = {track["name"]: track["effectiveWeight"] for track in status.get("tracks", ())}
        current = status.get("observedGeneration") == body["metadata"]["generation"]
        return current and bool(status["ready"]) and shares.get("canary") == weight

    return await yard.until(is_so, KIND, name)


class Clients:
    """Clients that ask for streamed answers, one after the other, and count what they get."""

    def __init__(self, url: str, pause: float) -> None:
        self._url, self._pause = url, pause
        self._done = asyncio.Event()
        self.answers: Counter[str] = Counter()
        self.lost: list[str] = []

    async def ask(self, session: aiohttp.ClientSession) -> None:
        while not self._done.is_set():
            try:
                async with session.post(self._url, json={"chunks": 5, "pause": self._pause}) as response:
                    text = await response.text()
            except aiohttp.ClientError as error:
                self.lost.append(repr(error))
                continue
            *words, last = text.split()
            if response.status != 200 or len(set(words)) != 1 or len(words) != 5 or last != "end":
                self.lost.append(f"{response.status} {text}")
            else:
                self.answers[words[0]] += 1

    async def more(self, number: int = 100) -> Counter[str]:
        """Wait for so many more answers, and return those."""
        before = self.answers.copy()
        async with in_time(lambda: f"{self.answers - before} of {number} answers; lost: {self.lost[-3:]}"):
            while self.answers.total() < before.total() + number:
                await asyncio.sleep(0.05)
        return self.answers - before

    def stop(self) -> None:
        self._done.set()


@asynccontextmanager
async def asking(
    yard: Yard, name: str, number: int = FEWER, keep_alive: int = 0, pause: float = 0.1
) -> AsyncIterator[Clients]:
    """Let clients ask a service for as long as the block lasts. So many of them keep their connections.

    Those stay where the Service led first. All others make a new connection for each request.
    """
    clients, patience = Clients(await yard.url(f"{name}-svc"), pause), aiohttp.ClientTimeout(total=60)
    new, kept = aiohttp.TCPConnector(limit=0, force_close=True), aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=new, timeout=patience) as hasty,
        aiohttp.ClientSession(connector=kept, timeout=patience) as steady,
        asyncio.TaskGroup() as group,
    ):
        for each in range(number):
            group.create_task(clients.ask(steady if each < keep_alive else hasty))
        try:
            yield clients
        finally:
            clients.stop()


async def until_gone(yard: Yard, name: str) -> None:
    """Wait until neither a canary nor a router is left."""
    for component in ("canary", "router"):
        await yard.kubectl("wait", "--for=delete", f"deployment/{name}-{component}", f"--timeout={SECONDS:.0f}s")


async def until_both_have_answered(yard: Yard) -> None:
    """Ask the example at the one address for all models until both models have named themselves."""
    missing = set(NAMED.values())
    async with in_time(lambda: f"{missing} did not answer"):
        while missing:
            said = await yard.answer_at_door("chat")
            missing -= {name for name in missing if said.startswith(name)}


async def test_of_2000_answers_of_the_example_20_percent_are_the_canarys(canaries: Yard) -> None:
    await until_split(canaries, "chat", 20)
    found = Counter[str]()
    await until_both_have_answered(canaries)
    # The router does not look at the question, and to name itself costs a model nothing.
    url = (await canaries.url("chat-svc")).replace("chat/completions", "models")
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:

        async def some() -> None:
            for _ in range(100):
                async with session.get(url) as response:
                    assert response.status == 200
                    found[response.headers[TRACK_HEADER]] += 1

        await asyncio.gather(*(some() for _ in range(20)))
        if not is_within_three_points(found):
            # By chance alone once in 1,200 runs; after as many again four times, once in a thousand million.
            await asyncio.gather(*(some() for _ in range(80)))
    assert is_within_three_points(found), found


def is_within_three_points(found: Counter[str]) -> bool:
    return 0.17 <= found["canary"] / found.total() <= 0.23


async def test_from_nothing_to_100_and_away_again_no_answer_is_lost_and_no_pod_restarts(canaries: Yard) -> None:
    await canaries.until(lambda body: body.get("status", {}).get("ready"), KIND, "busy")
    primary = (await canaries.pods("busy-primary"))[0]["metadata"]["uid"]
    async with asking(canaries, "busy", CLIENTS, keep_alive=CLIENTS // 2, pause=0.4) as clients:
        assert set(await clients.more()) == {"old"}
        for weight in (0, 20, 60, 100):
            await patch(canaries, "busy", f'{{"canary": {{"modelRef": "new", "weight": {weight}}}}}')
            await until_split(canaries, "busy", weight)
            await clients.more()
        canary = (await canaries.pods("busy-canary"))[0]
        assert canary["status"]["containerStatuses"][0]["restartCount"] == 0
        await patch(canaries, "busy", '{"canary": null}')
        await until_split(canaries, "busy", None)
        await until_gone(canaries, "busy")
        await clients.more()
    assert clients.lost == []
    assert clients.answers["new"] > 100
    (pod,) = await canaries.pods("busy-primary")
    assert (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]) == (primary, 0)
    await canaries.kubectl("delete", KIND, "busy", "--wait=false")


async def test_the_loss_of_one_router_costs_only_what_was_in_flight_on_it(canaries: Yard) -> None:
    await until_split(canaries, "hard", 50)
    router = (await canaries.pods("hard-router"))[0]
    async with asking(canaries, "hard") as clients:
        await clients.more()
        os.kill(envoy_of(router), signal.SIGKILL)
        await clients.more(200)
        lost = len(clients.lost)
        await clients.more(200)
    # Those that were under way, and none after.
    assert lost <= FEWER
    assert len(clients.lost) == lost
    await until_split(canaries, "hard", 50)
    await canaries.kubectl("delete", KIND, "hard", "--wait=false")


async def test_a_canary_that_answers_500_is_rolled_back_by_its_steps(canaries: Yard) -> None:
    await canaries.until(lambda body: body.get("status", {}).get("rollout", {}).get("since"), KIND, "unlucky")
    async with asking(canaries, "unlucky") as clients:
        await canaries.until(lambda body: body["status"]["rollout"].get("verdict") == "RolledBack", KIND, "unlucky")
        body = await canaries.until(lambda body: body["status"]["tracks"][1]["effectiveWeight"] == 0, KIND, "unlucky")
        failed = len(clients.lost)
        await clients.more()
    assert "answers were errors, and 5% may be" in condition(body, "TrafficSplit")["message"]
    assert len(clients.lost) <= failed + FEWER
    assert 0 < len(clients.lost) < 0.3 * (clients.answers.total() + len(clients.lost))
    await canaries.kubectl("delete", KIND, "unlucky", "--wait=false")


async def test_a_good_canary_is_promoted_by_its_steps_and_no_answer_is_lost(canaries: Yard) -> None:
    steps = [{"weight": weight, "duration": "2s", "maxErrorRate": "1%", "minRequests": 5} for weight in (20, 60)]
    await canaries.until(lambda body: body.get("status", {}).get("ready"), KIND, "lucky")
    async with asking(canaries, "lucky") as clients:
        await patch(canaries, "lucky", json.dumps({"canary": {"modelRef": "new", "steps": steps, "promote": "Auto"}}))
        body = await canaries.until(
            lambda body: condition(body, "TrafficSplit").get("reason") == "Promoted", KIND, "lucky"
        )
        await until_gone(canaries, "lucky")
        assert set(await clients.more()) == {"new"}
    assert clients.lost == []
    assert [track["model"] for track in body["status"]["tracks"]] == ["new"]
    await patch(canaries, "lucky", '{"modelRef": "new", "canary": null}')
    await until_split(canaries, "lucky", None)
    await canaries.kubectl("delete", KIND, "lucky", "--wait=false")


def envoy_of(pod: Json) -> int:
    """Return the process that is the router of a pod."""
    uid = pod["metadata"]["uid"]
    return next(pid for pid, words in all_processes().items() if "_bin/envoy" in words and uid in words)
