"""What happens to requests while services are changed, scaled, crashed, or do not fit."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from tests.e2e.yards import NAMED, Yard, all_processes, ask, condition, in_time, service

if TYPE_CHECKING:
    from tests.e2e.yards import Json


async def test_two_services_of_two_replicas_answer_at_the_same_time_each_with_its_own_name(yard: Yard) -> None:
    urls = {name: await yard.url(name) for name in NAMED}
    asked = [name for _ in range(4) for name in urls]
    said = await asyncio.gather(*(ask(urls[name], "Which model are you?") for name in asked))
    assert all(answer.startswith(NAMED[name]) for name, answer in zip(asked, said, strict=True))
    for name in NAMED:
        pods = await yard.pods(name)
        assert len({pod["status"]["podIP"] for pod in pods}) == 2


async def test_a_service_is_scaled_to_zero_and_back(yard: Yard) -> None:
    await yard.apply(service("zero", "yard"))
    await yard.until_ready("zero")
    url = await yard.url("zero")
    await yard.kubectl("scale", "inferenceservice/zero", "--replicas=0")
    await yard.until(lambda body: body["status"]["phase"] == "Stopped", "inferenceservice", "zero")
    await until_refused(url)
    await yard.kubectl("scale", "inferenceservice/zero", "--replicas=1")
    await yard.until_ready("zero")
    assert (await yard.answer("zero")).startswith(NAMED["yard"])
    assert await yard.url("zero") == url
    await yard.kubectl("delete", "inferenceservice", "zero")


async def test_a_change_of_the_model_is_answered_by_the_new_one_and_loses_no_request(yard: Yard) -> None:
    await yard.apply(service("changing", "yard"))
    await yard.until_ready("changing")
    url = await yard.url("changing")
    assert (await yard.answer("changing")).startswith(NAMED["yard"])
    old = (await yard.pods("changing"))[0]
    asking = [asyncio.create_task(ask_until_named(url, NAMED["yard-green"])) for _ in range(3)]
    await yard.kubectl(
        "patch", "inferenceservice", "changing", "--type=merge", "-p", '{"spec":{"modelRef":"yard-green"}}'
    )
    await yard.until_ready("changing")
    await yard.kubectl("wait", "--for=delete", "--timeout=120s", *name_of(old))
    assert (await ask(url, "Which model are you?")).startswith(NAMED["yard-green"])
    said = [answer for each in await asyncio.gather(*asking) for answer in each]
    assert {answer.partition(",")[0] for answer in said} == {"I am Yard", "I am Yard Green"}
    await yard.kubectl("delete", "inferenceservice", "changing")


async def test_a_request_in_flight_outlives_the_pods_that_are_replaced(yard: Yard) -> None:
    await yard.apply(service("flying", "yard"))
    await yard.until_ready("flying")
    old = (await yard.pods("flying"))[0]
    await yard.answer("flying")
    caller = HalfAsked(await yard.url("flying"))
    await caller.begin()
    await yard.kubectl("rollout", "restart", "deployment/flying")
    await yard.until(lambda body: "deletionTimestamp" in body["metadata"], *name_of(old))
    await yard.until(lambda body: body["status"].get("readyReplicas") == 1, "deployment", "flying")
    assert "I am Yard" in await caller.finish()
    await yard.kubectl("wait", "--for=delete", "--timeout=120s", *name_of(old))
    await yard.kubectl("delete", "inferenceservice", "flying")


async def test_a_crash_of_the_engine_is_mended_and_shown(yard: Yard) -> None:
    await yard.apply(service("crashing", "yard"))
    await yard.until_ready("crashing")
    pod = (await yard.pods("crashing"))[0]
    os.kill(engine_of(pod), signal.SIGKILL)
    back = await yard.until(lambda body: restarts(body) == 1 and condition(body)["status"] == "True", *name_of(pod))
    ended = back["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")
    await yard.until_ready("crashing")
    assert (await yard.answer("crashing")).startswith(NAMED["yard"])
    await yard.kubectl("delete", "inferenceservice", "crashing")


async def test_an_engine_that_always_crashes_says_so(yard: Yard) -> None:
    await yard.apply(service("hopeless", "yard", extraArgs=["--no-such-flag"]))
    body = await yard.until(lambda body: condition(body).get("reason") == "CrashLoop", "inferenceservice", "hopeless")
    assert "kubectl logs --previous -c llama-server" in condition(body)["message"]
    assert "--no-such-flag" in await yard.kubectl("logs", "--previous", "-c", "llama-server", "deployment/hopeless")
    await yard.kubectl("delete", "inferenceservice", "hopeless")


async def test_a_model_that_does_not_fit_says_so(yard: Yard) -> None:
    await yard.apply(service("big", "yard", resources={"memory": "900Ti"}))
    body = await yard.until(lambda body: condition(body).get("reason") == "Unschedulable", "inferenceservice", "big")
    assert "memory" in condition(body)["message"]
    await yard.kubectl("delete", "inferenceservice", "big")


async def test_an_engine_that_is_not_installed_is_named_with_what_to_install(yard: Yard) -> None:
    await yard.apply(service("absent", "yard", runtime="vllm"))
    body = await yard.until(
        lambda body: condition(body).get("reason") == "ImagePullFailed", "inferenceservice", "absent"
    )
    assert "install vLLM so that vllm is on the PATH" in condition(body)["message"]
    await yard.kubectl("delete", "inferenceservice/absent")


async def ask_until_named(url: str, name: str) -> list[str]:
    """Ask again and again until the answer is another one; none may get lost."""
    said = [""]
    async with in_time(lambda: f"{name} does not answer, but: {said[-1]}"):
        while not said[-1].startswith(name):
            said.append(await ask(url, "Which model are you?"))
    return said[1:]


class HalfAsked:
    """A request of which the server has the first half: it is in flight for as long as we like."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        body = b'{"messages":[{"role":"user","content":"Which model are you?"}],"temperature":0}'
        head = (
            f"POST {self._url.path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._first, self._second = head.encode() + body[:20], body[20:]

    async def begin(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._url.hostname, self._url.port)
        self._writer.write(self._first)
        await self._writer.drain()

    async def finish(self) -> str:
        self._writer.write(self._second)
        async with in_time(lambda: "what was asked by halves is not answered"):
            answer = await self._reader.read()
        self._writer.close()
        return answer.decode()


async def until_refused(url: str) -> None:
    """Wait until nobody listens: a service has stopped a moment before Kubernetes has told everybody."""
    async with in_time(lambda: f"{url} is still open"):
        while True:
            try:
                await ask(url, "Is anybody there?")
            except aiohttp.ClientConnectorError:
                return
            except aiohttp.ClientError:
                pass  # the last one has just gone
            await asyncio.sleep(0.05)


def engine_of(pod: Json) -> int:
    """Return the process that is the engine of a pod."""
    uid = pod["metadata"]["uid"]
    return next(
        pid for pid, words in all_processes().items() if "modelyard.local.llama_server" in words and uid in words
    )


def restarts(pod: Json) -> int:
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


def name_of(pod: Json) -> tuple[str, str]:
    return "pod", pod["metadata"]["name"]
