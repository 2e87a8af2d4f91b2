"""`modelyard run --engine-metrics` on a real cluster: figures of pods on our own page, and not a write for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from tests.support.mcps import expect_writes
from tests.support.operators import running_operator
from tests.support.services import FIRST_OF_A_NAMESPACE, create_pair, until_service
from tests.weights.fileserver import serving

if TYPE_CHECKING:
    from pathlib import Path

    from modelyard.local.cluster import Cluster
    from tests.support.operators import OperatorProcess
    from tests.support.recorder import Recorder

PAGE = "llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\nllamacpp:tokens_predicted_total 70\n"


async def test_the_figures_of_a_service_are_shown_and_nothing_is_written_for_them(
    cluster: Cluster, installed: Path, namespace: str, recorder: Recorder, tmp_path: Path
) -> None:
    admin, log = cluster.controlplane.admin, cluster.controlplane.audit_log

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=PAGE)

    settings = {"WATCH_NAMESPACE": namespace, "ENGINE_METRICS": "true"}
    async with serving(answer) as port, running_operator(installed, port, tmp_path / "log", **settings) as operator:
        await create_pair(admin, namespace)
        await until_service(recorder, namespace)
        await expect_writes(log, namespace, FIRST_OF_A_NAMESPACE)
        assert await until_shown(operator, namespace) == {"requests_running": 2.0, "requests_waiting": 1.0}
        await expect_writes(log, namespace, FIRST_OF_A_NAMESPACE)


async def until_shown(operator: OperatorProcess, namespace: str) -> dict[str, float]:
    """Wait until the page of an operator shows figures of the service, and return them."""
    async with asyncio.timeout(60):
        while True:
            shown = {
                family.name.removeprefix("modelyard_engine_"): sample.value
                for family in text_string_to_metric_families(await operator.metrics())
                for sample in family.samples
                if sample.labels == {"namespace": namespace, "kind": "inferenceservice", "name": "chat"}
            }
            if shown:
                return shown
            await asyncio.sleep(0.1)
