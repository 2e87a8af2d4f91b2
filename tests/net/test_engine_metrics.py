"""The metrics of engines, read from servers that answer well, badly or not at all."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from modelyard.core.checks.engine_metrics import AT, SAMPLES, EngineMetrics
from modelyard.core.checks.service_address import ServiceAddress
from modelyard.engines import ENGINES
from modelyard.engines.measured import sample_names
from modelyard.net.engine_metrics import read_metrics
from modelyard.net.http_exchange import in_cluster
from tests.weights.fileserver import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGES = Path(__file__).resolve().parents[1] / "data" / "metrics"


@asynccontextmanager
async def metrics(page: str, status: int = 200, engine: str = "vllm") -> AsyncIterator[EngineMetrics]:
    """Serve a page, and return the check of it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert (request.method, request.path) == ("GET", "/metrics")
        return web.Response(text=page, status=status)

    async with serving(answer) as port:
        address = ServiceAddress("default", "pod", port, "127.0.0.1")
        yield EngineMetrics(address, "uid", engine, sample_names(ENGINES[engine].measures))


async def test_only_the_samples_that_were_asked_for_are_taken() -> None:
    async with metrics((PAGES / "tgi.txt").read_text(), engine="tgi") as check:
        answer = await read_metrics(check, in_cluster)
    assert answer.ok
    assert answer.value[SAMPLES] == {
        "tgi_request_generated_tokens_sum": [2800.0],
        "tgi_batch_current_size": [4.0],
        "tgi_queue_size": [1.0],
    }


async def test_each_answer_has_its_time_so_that_rates_can_be_told() -> None:
    async with metrics("") as check:
        first, second = await read_metrics(check, in_cluster), await read_metrics(check, in_cluster)
    assert first.value[SAMPLES] == {}
    assert first.value[AT] < second.value[AT]


@pytest.mark.parametrize(("page", "status"), [("", 401), ("", 404), ("vllm:num_requests_running many", 200)])
async def test_what_cannot_be_read_is_a_bad_answer(page: str, status: int) -> None:
    async with metrics(page, status) as check:
        assert not (await read_metrics(check, in_cluster)).ok


async def test_a_server_that_is_gone_is_a_bad_answer() -> None:
    async with metrics("") as check:
        pass
    assert not (await read_metrics(check, in_cluster)).ok


async def test_a_page_without_end_is_read_as_far_as_it_may() -> None:
    page = (PAGES / "vllm.txt").read_text() + "x 1\n" * 200_000
    async with metrics(page) as check:
        answer = await read_metrics(check, in_cluster)
    assert answer.value[SAMPLES]["vllm:num_requests_running"] == [3.0]
