"""The page with many objects, in a real browser: how long it takes to load, and until a change is seen.

Loading is from the printed address to the last object, in a browser that has never seen the page. A change is a status
that is written to the API server; it counts as seen when the document shows it.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from bench.cluster import fresh_cluster
from bench.objects import AT_ONCE, NAMESPACE
from bench.report import Row
from modelyard.core.resources import Key
from modelyard.kinds.inferenceservice.api import RESOURCE as INFERENCE_SERVICE
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.kube.config import from_kubeconfig
from modelyard.page.server import PageSettings, serving_here
from tools.browser import running_browser

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

    from bench.cluster import Cluster
    from modelyard.core.resources import Resource

Json = dict[str, Any]

_OBJECTS: Final = 2000
_CHANGES: Final = 20
_LOADS: Final = 3
_ALL_SHOWN: Final = "count => document.querySelectorAll('a.card').length === count"
_SHOWN: Final = "text => [...document.querySelectorAll('a.card')].some((card) => card.textContent.includes(text))"


async def page() -> list[Row]:
    """Measure the page with a thousand Models and as many services."""
    async with fresh_cluster(nodes=False) as cluster:
        await _make_objects(cluster)
        async with running_browser() as browser:
            loads = [await _load(cluster, browser) for _ in range(_LOADS)]
            changes = await _changes(cluster, browser)
    return [
        Row(f"{_OBJECTS} objects: address to all shown", median(loads), "s", goal=2.0),
        Row("status to screen, median", 1000 * median(changes), "ms", goal=500.0),
        Row(f"status to screen, worst of {_CHANGES}", 1000 * max(changes), "ms", goal=500.0),
    ]


async def _make_objects(cluster: Cluster) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def make(number: int) -> None:
        async with gate:
            name = f"object-{number}"
            await _create(cluster, MODEL, name, {"source": "https://models.example/any.gguf"})
            await _create(cluster, INFERENCE_SERVICE, name, {"modelRef": name})

    async with asyncio.TaskGroup() as group:
        for number in range(_OBJECTS // 2):
            group.create_task(make(number))


async def _create(cluster: Cluster, resource: Resource, name: str, spec: Json) -> None:
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    await cluster.client.create(resource, {**head, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
    await _say(cluster, resource, name, "Ready")


async def _say(cluster: Cluster, resource: Resource, name: str, phase: str) -> None:
    """Write a status as the operator does."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "1 of 1 pods are ready",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"phase": phase, "observedGeneration": 1, "conditions": [ready]}
    await cluster.client.merge_patch(resource, Key(NAMESPACE, name), {"status": status}, "status")


async def _load(cluster: Cluster, browser: Browser) -> float:
    """Return the seconds from the printed address to the last object."""
    async with serving_here(from_kubeconfig([cluster.controlplane.kubeconfig]), PageSettings()) as address:
        window = await browser.new_page()
        began = time.perf_counter()
        await _shown(window, address)
        taken = time.perf_counter() - began
        await window.close()
    return taken


async def _changes(cluster: Cluster, browser: Browser) -> list[float]:
    """Return the seconds from each change of a status to its sight."""
    async with serving_here(from_kubeconfig([cluster.controlplane.kubeconfig]), PageSettings()) as address:
        window = await browser.new_page()
        await _shown(window, address)
        return [await _change(cluster, window, number) for number in range(_CHANGES)]


async def _shown(window: Page, address: str) -> None:
    await window.goto(address)
    await window.wait_for_function(_ALL_SHOWN, arg=_OBJECTS)


async def _change(cluster: Cluster, window: Page, number: int) -> float:
    phase = f"Phase{number}"
    began = time.perf_counter()
    await _say(cluster, INFERENCE_SERVICE, "object-0", phase)
    await window.wait_for_function(_SHOWN, arg=phase)
    return time.perf_counter() - began
