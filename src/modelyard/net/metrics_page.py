"""The metrics page of an inference server in a pod, for `engine_load` and `engine_metrics`, as Prometheus reads it.

The page is bounded in time and length, and no more than numbers with known names is taken from it.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from modelyard.net.http_exchange import TooLong, conversation

if TYPE_CHECKING:
    from collections.abc import Collection

    from modelyard.core.checks.service_address import ServiceAddress
    from modelyard.net.http_exchange import Locate

_PATH: Final = "/metrics"
_SECONDS: Final = 5.0
_SAMPLE: Final = re.compile(r"^(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{[^}]*\})?\s+(?P<value>\S+)", re.MULTILINE)


async def read_page(pod: ServiceAddress, where: Locate) -> str:
    """Return the metrics page of a pod, cut at 256 KiB. ExchangeFailed or ValueError: there is none."""
    deadline = asyncio.get_running_loop().time() + _SECONDS
    page = bytearray()
    async with conversation(pod, _PATH, where, None, deadline) as peer, peer.send("GET", {}) as reply:
        if reply.status != 200:
            raise ValueError(f"the metrics are answered with {reply.status}")
        # Histograms fill the page; what we look for is among the first lines.
        with suppress(TooLong):
            async for chunk in reply.chunks():
                page += chunk
    return page.decode(errors="replace")


def samples(page: str, names: Collection[str]) -> dict[str, list[float]]:
    """Return the values of each of these metrics, one for each set of labels; those that the page lacks are left out.

    ValueError: one of them is no number.
    """
    found: dict[str, list[float]] = {}
    for sample in _SAMPLE.finditer(page):
        if sample["name"] in names:
            found.setdefault(sample["name"], []).append(float(sample["value"]))
    return found
