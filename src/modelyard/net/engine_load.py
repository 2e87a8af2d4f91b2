"""Answers `EngineLoad`: reads the metrics of an inference server twice, and says whether it is idle.

A server that cannot be read is not idle: the answer is bad, and the caller takes it for busy. Its counterpart is what a
load balancer does before it takes a server away.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from modelyard.core.checks import Answer
from modelyard.core.checks.engine_load import BUSY
from modelyard.core.reasons import Reason
from modelyard.net.http_exchange import ExchangeFailed
from modelyard.net.metrics_page import read_page, samples

if TYPE_CHECKING:
    from modelyard.core.checks.engine_load import EngineLoad
    from modelyard.net.http_exchange import Locate

_PAUSE_SECONDS: Final = 0.5


async def read_load(check: EngineLoad, where: Locate) -> Answer:
    """Return whether a server is busy; a bad answer: it cannot be read."""
    try:
        is_busy = await _is_busy(check, where)
        if not is_busy:
            # A request that was on its way at the first look is there at the second.
            await asyncio.sleep(_PAUSE_SECONDS)
            is_busy = await _is_busy(check, where)
    except (ExchangeFailed, ValueError):
        return Answer(False, Reason.NO_ANSWER, "the metrics of a pod cannot be read")
    return Answer(True, Reason.ANSWERED, "the metrics were read", {BUSY: is_busy})


async def _is_busy(check: EngineLoad, where: Locate) -> bool:
    found = samples(await read_page(check.pod, where), check.gauges)
    if absent := [name for name in check.gauges if name not in found]:
        raise ValueError(f"the metrics lack {absent[0]}")
    return any(any(values) for values in found.values())
