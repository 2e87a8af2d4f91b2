"""Answers `EngineLoad`: reads the metrics of an inference server twice, and says whether it is idle.

A server that cannot be read is not idle: the answer is bad, and the caller takes it for busy. Its counterpart is what a
load balancer does before it takes a server away.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from modelyard.core.checks import Answer
from modelyard.core.checks.engine_load import BUSY
from modelyard.core.reasons import Reason
from modelyard.net.http_exchange import ExchangeFailed, TooLong, conversation

if TYPE_CHECKING:
    from collections.abc import Collection

    from modelyard.core.checks.engine_load import EngineLoad
    from modelyard.net.http_exchange import Locate

_PATH: Final = "/metrics"
_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.5
_SAMPLE: Final = re.compile(r"^(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{[^}]*\})?\s+(?P<value>\S+)", re.MULTILINE)


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
    found = samples(await _page(check, where), check.gauges)
    if absent := [name for name in check.gauges if name not in found]:
        raise ValueError(f"the metrics lack {absent[0]}")
    return any(found.values())


async def _page(check: EngineLoad, where: Locate) -> str:
    deadline = asyncio.get_running_loop().time() + _SECONDS
    page = bytearray()
    async with conversation(check.pod, _PATH, where, None, deadline) as peer, peer.send("GET", {}) as reply:
        if reply.status != 200:
            raise ValueError(f"the metrics are answered with {reply.status}")
        # Histograms fill the page; what we look for is among the first lines.
        with suppress(TooLong):
            async for chunk in reply.chunks():
                page += chunk
    return page.decode(errors="replace")


def samples(page: str, names: Collection[str]) -> dict[str, float]:
    """Return the sum of each of these metrics over all their labels; those that the page lacks are left out."""
    found: dict[str, float] = {}
    for sample in _SAMPLE.finditer(page):
        if sample["name"] in names:
            found[sample["name"]] = found.get(sample["name"], 0.0) + float(sample["value"])
    return found
