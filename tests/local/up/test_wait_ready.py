"""Nobody waits for what will not come, and only who answers serves."""

from __future__ import annotations

import asyncio
import io

import aiohttp
import pytest
from rich.console import Console

from modelyard.core.objects import Stored
from modelyard.core.resources import Key
from modelyard.kinds.inferenceservice.api import RESOURCE as SERVICE
from modelyard.local.node.proxy.addresses import HostPort, PodAddresses
from modelyard.local.node.proxy.service_proxy import ServiceProxy
from modelyard.local.up.rows import Row
from modelyard.local.up.screen import Screen
from modelyard.local.up.view import View
from modelyard.local.up.wait_ready import _patience, answers, first_answer, wait_ready

CHAT = "http://yard.default.svc.cluster.local:8080/v1/chat/completions"


async def test_files_without_any_of_our_kinds_are_settled_at_once() -> None:
    view, screen = View(dict), Screen(Console(file=io.StringIO()))
    async with asyncio.timeout(60):
        assert await wait_ready(ServiceProxy(PodAddresses()), view, screen) == []


def test_what_was_wrong_in_the_last_start_is_given_time_to_be_mended() -> None:
    broken = Row("InferenceService", "green", "Failed", "0/1", "CrashLoop", is_current=True, is_settled=True)
    ready = Row("Model", "yard", "Ready", "yes", "Ready", is_current=True, is_ready=True, is_settled=True)
    new = Row("Model", "new", "Pending", "no", "")
    still, since_now = _patience([ready, broken], [ready, broken]), _patience([ready, broken], [ready])
    assert still is not None
    assert since_now is not None
    assert still > since_now
    assert _patience([new, broken], [broken]) is None


def stored(name: str, revision: int, **status: object) -> Stored:
    meta = {"name": name, "namespace": "default", "generation": 1, "resourceVersion": str(revision)}
    return Stored.from_dict(SERVICE, {"metadata": meta, "spec": {}, "status": status})


async def test_the_first_service_that_answers_is_told_while_another_is_still_on_its_way() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    place = HostPort("127.0.0.1", server.sockets[0].getsockname()[1])
    view = View(lambda: {Key("default", "yard"): {8080: place}})
    ready = [{"type": "Ready", "status": "True", "reason": "InferenceReady", "message": ""}]
    view._stores[SERVICE].replace([stored("big", 1), stored("yard", 2)], 2)
    async with server, asyncio.timeout(60):
        telling = asyncio.create_task(first_answer(view))
        view._stores[SERVICE].upsert(stored("yard", 3, observedGeneration=1, endpoint=CHAT, conditions=ready))
        assert (await telling).name == "yard"


@pytest.mark.parametrize("words", [b"SSH-2.0-x\r\n", b"\0\0\x12\4\0\0\0\0\0", b"HTTP/1.1 404 No\r\n\r\n"])
async def test_a_server_that_answers_in_another_language_answers(words: bytes) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, aiohttp.ClientSession() as session:
        port = server.sockets[0].getsockname()[1]
        assert await answers(session, f"http://127.0.0.1:{port}/x")
    async with aiohttp.ClientSession() as session:
        assert not await answers(session, f"http://127.0.0.1:{port}/x")
