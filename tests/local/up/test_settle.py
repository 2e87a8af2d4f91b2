"""What was ready before this start does not count as ready, and nobody waits for what will not come."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import aiohttp
import pytest
from rich.console import Console

from modelyard.core.resources import POD
from modelyard.core.stored import Stored
from modelyard.kube.client import Client
from modelyard.kube.config import from_kubeconfig
from modelyard.kube.transport import HttpTransport
from modelyard.local.node.addresses import Addresses
from modelyard.local.node.services import Services
from modelyard.local.up.machine import Machine
from modelyard.local.up.screen import Screen
from modelyard.local.up.settle import answers, began_after, until_settled
from modelyard.local.up.view import View

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.local.cluster import Cluster

START = datetime(2026, 1, 1, 12, 0, 0, 700_000, tzinfo=UTC)


def pod(ready: str, *started: datetime) -> Stored:
    containers = [{"state": {"running": {"startedAt": when.strftime("%Y-%m-%dT%H:%M:%SZ")}}} for when in started]
    status = {"conditions": [{"type": "Ready", "status": ready}], "containerStatuses": containers}
    return Stored.from_dict(POD, {"metadata": {"name": "pod"}, "status": status})


def test_a_pod_is_of_this_start_when_all_its_containers_are() -> None:
    before, after = START - timedelta(seconds=2), START + timedelta(seconds=2)
    assert began_after(pod("True", after, after), START)
    assert not began_after(pod("True", after, before), START)


def test_times_of_kubernetes_have_whole_seconds() -> None:
    assert began_after(pod("True", START), START)


def test_a_pod_that_is_not_ready_misleads_nobody() -> None:
    assert began_after(pod("False", START - timedelta(days=1)), START)
    assert began_after(Stored.from_dict(POD, {"metadata": {"name": "new"}}), START)


async def test_files_without_any_of_our_kinds_are_settled_at_once(cluster: Cluster, installed: Path) -> None:
    transport = HttpTransport(from_kubeconfig([cluster.kubeconfig]))
    client, addresses = Client(transport), Addresses()
    machine = Machine(cluster.controlplane, client, addresses, Services(addresses))
    view, screen = View(dict), Screen(Console(file=io.StringIO()))
    async with asyncio.timeout(30):
        assert await until_settled(machine, view, screen, START) == []
    await client.close()


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
