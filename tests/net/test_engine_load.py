"""Whether a server has requests in progress, asked of servers that answer well, badly, too much or not at all."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from modelyard.core.checks.engine_load import BUSY, EngineLoad
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.net.engine_load import read_load
from modelyard.net.http_exchange import in_cluster
from modelyard.net.metrics_page import samples
from modelyard.net.pod_network import through
from tests.weights.fileserver import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")
PAGE = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="ab"}} {}
vllm:num_requests_waiting{{engine="0"}} {}
vllm:num_requests_waiting{{engine="1"}} {}
vllm:num_requests_waiting_total 7
"""


@asynccontextmanager
async def metrics(*pages: str, status: int = 200) -> AsyncIterator[EngineLoad]:
    """Serve these pages, the last one again and again, and return the check of it."""
    left = list(pages)

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.path == "/metrics"
        return web.Response(text=left.pop(0) if len(left) > 1 else left[0], status=status)

    async with serving(answer) as port:
        yield EngineLoad(ServiceAddress("default", "pod", port, "127.0.0.1"), "uid", GAUGES)


@pytest.mark.parametrize(
    ("numbers", "busy"), [((0, 0, 0), False), ((1.0, 0, 0), True), ((0, 0, 2), True), (("0.0", "0e0", 0), False)]
)
async def test_requests_that_run_or_wait_make_a_server_busy(numbers: tuple[object, ...], busy: bool) -> None:
    async with metrics(PAGE.format(*numbers)) as check:
        answer = await read_load(check, in_cluster)
    assert (answer.ok, answer.value) == (True, {BUSY: busy})


async def test_a_request_that_comes_between_two_looks_is_seen() -> None:
    async with metrics(PAGE.format(0, 0, 0), PAGE.format(1, 0, 0)) as check:
        assert (await read_load(check, in_cluster)).value == {BUSY: True}


@pytest.mark.parametrize(
    ("page", "status"),
    [("", 200), ("vllm:num_requests_running 0", 200), ("vllm:num_requests_running many", 200), ("no", 500)],
)
async def test_what_cannot_be_read_is_a_bad_answer_and_never_idle(page: str, status: int) -> None:
    async with metrics(page, status=status) as check:
        assert not (await read_load(check, in_cluster)).ok


async def test_a_server_that_is_gone_is_a_bad_answer() -> None:
    async with metrics("") as check:
        pass
    assert not (await read_load(check, in_cluster)).ok


async def test_a_page_without_end_is_read_as_far_as_the_gauges() -> None:
    async with metrics(PAGE.format(0, 0, 0) + "x 1\n" * 200_000) as check:
        assert (await read_load(check, in_cluster)).value == {BUSY: False}


def test_metrics_of_similar_names_are_told_apart() -> None:
    assert samples('a_total 1\na{x="1"} 2\na{x="2"} 3\nb 4\n', ("a",)) == {"a": [2.0, 3.0]}


def test_pods_of_one_machine_are_found_on_loopback() -> None:
    locate = through("240.97.0.0/16=127.97.0.0/16")
    assert locate(ServiceAddress("default", "pod", 80, "240.97.3.4")) == ("127.97.3.4", 80)
    assert locate(ServiceAddress("default", "pod", 80, "10.0.0.1")) == ("10.0.0.1", 80)
    assert locate(ServiceAddress("default", "pod", 80)) == ("pod.default.svc.cluster.local", 80)
    assert through("")(ServiceAddress("default", "pod", 80, "240.97.3.4")) == ("240.97.3.4", 80)


@pytest.mark.parametrize("networks", ["240.97.0.0/16", "240.97.0.0/16=127.97.0.0/24", "a=b", "1=2=3"])
def test_networks_that_make_no_sense_are_refused(networks: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        through(networks)
