"""The figures of models for `modelyard get -o wide`: read from their pods, with the rights of the user.

The proxy of the API server (`pods/proxy`) reaches every pod of a cluster. That of one machine does not; its pods listen
on loopback and are asked there. Two readings make a rate, so a table with figures takes a moment longer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from modelyard.cluster.session import for_each
from modelyard.core import names
from modelyard.core.resources import POD
from modelyard.engines import ENGINES
from modelyard.engines.measured import Measured, Reading, measured, together
from modelyard.kinds.shared.engine_metrics import metrics_check
from modelyard.kube.errors import Forbidden, KubeError
from modelyard.local.node.proxy.addresses import POD_NETWORK, SHOWN_NETWORK
from modelyard.net.http_exchange import ExchangeFailed, in_cluster
from modelyard.net.metrics_page import read_page, samples
from modelyard.net.pod_network import through
from modelyard.runtime.cache import OwnerKey, owner_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from modelyard.cluster.session import Session
    from modelyard.core.checks.engine_metrics import EngineMetrics

    Figures = Mapping[OwnerKey, tuple[str, ...]]
    """The figures of objects that are served, as cells of a table; empty ones: the engine does not tell."""

PAUSE_SECONDS: Final = 1.0
"""How long after the first reading the second is made."""

_SECONDS: Final = 5.0
_AT_A_TIME: Final = 32
_ON_THIS_MACHINE: Final = through(f"{SHOWN_NETWORK}={POD_NETWORK}")
_CELLS: Final[tuple[Callable[[Measured], str], ...]] = (
    lambda one: _cell(one.tokens_per_second, "{:.1f}"),
    lambda one: _cell(one.time_to_first_token, "{:.2f}s"),
    lambda one: _cell(one.requests_running, "{:.0f}"),
    lambda one: _cell(one.requests_waiting, "{:.0f}"),
    lambda one: _cell(one.kv_cache_usage, "{:.0%}"),
)


async def read_figures(session: Session, namespace: str, wanted: Collection[OwnerKey]) -> Figures:
    """Return the figures of some objects of a namespace, or (empty) of all; those that cannot be read are left out."""
    try:
        pods = await session.client.list_all(POD, namespace, names.OURS)
    except Forbidden:
        return {}
    found = ((owner_of(pod), metrics_check(pod)) for pod in pods)
    servers = [(owner, check) for owner, check in found if owner and check and owner in wanted]
    told = await _read_twice(session, servers) if servers else {}
    return {owner: cells(figures) for owner, figures in told.items()}


def cells(figures: Measured) -> tuple[str, ...]:
    """Return the figures of a model as cells of a table; empty ones: the engine does not tell."""
    return tuple(cell(figures) for cell in _CELLS)


async def _read_twice(session: Session, servers: Sequence[tuple[OwnerKey, EngineMetrics]]) -> dict[OwnerKey, Measured]:
    checks, places = [check for _, check in servers], asyncio.Semaphore(_AT_A_TIME)

    async def reading(check: EngineMetrics) -> Reading | None:
        async with places:
            return await _reading(session, check)

    before = await for_each(reading, checks)
    await asyncio.sleep(PAUSE_SECONDS if any(before) else 0)
    after = await for_each(reading, checks)
    told: dict[OwnerKey, list[Measured]] = {}
    for (owner, check), first, second in zip(servers, before, after, strict=True):
        if second:
            told.setdefault(owner, []).append(measured(ENGINES[check.engine].measures, second, first))
    return {owner: together(pods) for owner, pods in told.items()}


async def _reading(session: Session, check: EngineMetrics) -> Reading | None:
    """Return what a pod tells now; None: it cannot be read."""
    with suppress(KubeError, ExchangeFailed, ValueError, TimeoutError):
        async with asyncio.timeout(_SECONDS):
            page = await _page(session, check)
        return Reading(asyncio.get_running_loop().time(), samples(page, check.names))
    return None


async def _page(session: Session, check: EngineMetrics) -> str:
    pod = check.pod
    if _ON_THIS_MACHINE(pod) != in_cluster(pod):
        return await read_page(pod, _ON_THIS_MACHINE)
    path = f"{POD.path(pod.namespace, pod.name)}:{pod.port}/proxy/metrics"
    return (await session.client.raw(path)).decode(errors="replace")


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
