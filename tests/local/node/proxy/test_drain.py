"""A pod that is about to end is left alone by new callers, and waits for those whose answer it still owes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from modelyard.local.node.proxy.addresses import HostPort, PodAddress
from modelyard.local.node.proxy.forwarder import Forwarder
from modelyard.local.ports import free_ports
from tests.local.node.proxy.loops import on_both_loops

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_IP = "127.97.201.1"
_POD = PodAddress(ip=_IP, port=None, shown="240.97.201.1")
_OTHER = PodAddress(ip="127.97.201.2", port=None, shown="240.97.201.2")
_AT_ONCE = 0.0
_LONG = 600.0


class Answers:
    """A server that answers each line when it is told to."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            await self.may_answer.wait()
            writer.write(line)
        writer.close()


@asynccontextmanager
async def _connected(answers: Answers) -> AsyncIterator[tuple[Forwarder, asyncio.StreamReader, asyncio.StreamWriter]]:
    port, door = free_ports(2)
    async with await asyncio.start_server(answers.serve, _IP, port):
        forward = Forwarder([HostPort("127.96.201.1", door)])
        forward.set_targets([HostPort(_IP, port)])
        reader, writer = await asyncio.open_connection(*forward.address)
        try:
            yield forward, reader, writer
        finally:
            writer.close()
            await forward.stop()


async def _until_awaited(forward: Forwarder, *, awaited: bool, quiet: float = _AT_ONCE) -> None:
    async with asyncio.timeout(60):
        while forward.awaits(_POD, quiet) is not awaited:
            await asyncio.sleep(0.01)


@on_both_loops
async def test_an_answer_is_awaited_from_the_question_until_it_has_come() -> None:
    answers = Answers()
    async with _connected(answers) as (forward, reader, writer):
        assert not forward.awaits(_POD, _AT_ONCE)
        writer.write(b"question\n")
        await _until_awaited(forward, awaited=True)
        answers.may_answer.set()
        assert await reader.readline() == b"question\n"
        await _until_awaited(forward, awaited=False)


@on_both_loops
async def test_an_answer_may_go_on_until_there_was_silence_for_a_while() -> None:
    answers = Answers()
    answers.may_answer.set()
    async with _connected(answers) as (forward, reader, writer):
        writer.write(b"question\n")
        await reader.readline()
        assert forward.awaits(_POD, _LONG)


@on_both_loops
async def test_who_has_hung_up_awaits_nothing() -> None:
    answers = Answers()
    answers.may_answer.set()
    async with _connected(answers) as (forward, reader, writer):
        writer.write(b"question\n")
        await reader.readline()
        writer.close()
        await _until_awaited(forward, awaited=False, quiet=_LONG)


@on_both_loops
async def test_nobody_awaits_an_answer_of_another_pod() -> None:
    answers = Answers()
    async with _connected(answers) as (forward, _, writer):
        writer.write(b"question\n")
        await _until_awaited(forward, awaited=True)
        assert not forward.awaits(_OTHER, _LONG)
        answers.may_answer.set()


def test_where_pods_share_an_address_they_are_told_apart_by_their_ports() -> None:
    first = PodAddress(ip="127.0.0.1", port=20_001, shown="240.97.0.1")
    assert first.has(HostPort("127.0.0.1", 20_001))
    assert not first.has(HostPort("127.0.0.1", 20_002))
    assert _POD.has(HostPort(_IP, 1))
    assert not _POD.has(HostPort("127.97.201.9", 1))
