"""Answers `EngineMetrics`: reads the metrics of an inference server for the figures of `--engine-metrics`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from modelyard.core.checks import Answer
from modelyard.core.checks.engine_metrics import AT, SAMPLES
from modelyard.core.reasons import Reason
from modelyard.net.http_exchange import ExchangeFailed
from modelyard.net.metrics_page import read_page, samples

if TYPE_CHECKING:
    from modelyard.core.checks.engine_metrics import EngineMetrics
    from modelyard.net.http_exchange import Locate


async def read_metrics(check: EngineMetrics, where: Locate) -> Answer:
    """Return the samples that a server has of those asked for; a bad answer: its metrics cannot be read."""
    try:
        found = samples(await read_page(check.pod, where), check.names)
    except (ExchangeFailed, ValueError):
        return Answer(False, Reason.NO_ANSWER, "the metrics of a pod cannot be read")
    value = {AT: asyncio.get_running_loop().time(), SAMPLES: found}
    return Answer(True, Reason.ANSWERED, "the metrics were read", value)
