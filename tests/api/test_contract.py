"""What the contract promises every kind, shown with a toy kind on the real API server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core import names
from modelyard.core.resources import EVENT, Key
from modelyard.kube import config
from modelyard.kube.client import Client
from modelyard.kube.transport import HttpTransport
from modelyard.local.ports import free_ports
from modelyard.manifests.crd import crd
from modelyard.net.attempts import Attempts
from modelyard.net.poller import Poller
from modelyard.runtime.manager import Operator, Settings
from tests.support.mcps import condition
from tests.support.operators import health
from tests.support.recorder import recording
from tests.support.widgets import ABSENT, ACCOUNT, CONFIG_MAP, KIND, WIDGET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.local.cluster import Cluster
    from tests.support.recorder import Recorder

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
async def widgets(cluster: Cluster) -> None:
    """The toy's definition is installed."""
    admin = cluster.controlplane.admin
    await admin.ensure(CRDS, crd(KIND))
    async with asyncio.timeout(60):
        while not await admin.answers(WIDGET.path()):
            await asyncio.sleep(0.02)


@asynccontextmanager
async def operating(cluster: Cluster, namespace: str, *kinds: Any, port: int = 0) -> AsyncIterator[Operator]:
    """Run an operator for these kinds in this process, as the administrator."""
    connection = config.from_kubeconfig([cluster.kubeconfig])

    operator = Operator(
        kinds or (KIND,),
        Settings(
            lease=Key(namespace, "toys"), identity="toy", namespace=namespace, host="127.0.0.1",
            health_port=port, metrics_port=0,
        ),
        lambda metrics: Client(HttpTransport(connection), observe=metrics.requested),
        lambda _, wake: Poller({}, wake, lane_of=hash),
        lambda _, wake: Poller({}, wake, lane_of=hash, outset=Attempts()),
    )  # fmt: skip
    task = asyncio.create_task(operator.run())
    try:
        yield operator
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def recorder(cluster: Cluster, namespace: str, widgets: None) -> AsyncIterator[Recorder]:
    async with recording(cluster.controlplane.admin, (WIDGET, CONFIG_MAP, EVENT), namespace) as running:
        yield running
    running.assert_invariants()


async def _create(
    cluster: Cluster, namespace: str, name: str, labels: dict[str, str] | None = None, **spec: Any
) -> None:
    body = {
        "apiVersion": WIDGET.api_version,
        "kind": WIDGET.kind,
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
    }
    await cluster.controlplane.admin.create(WIDGET.path(namespace), body)


def _is_ready(item: dict[str, Any] | None) -> bool:
    return condition(item, "Ready").get("status") == "True"


async def test_the_finalizer_comes_before_the_first_child_and_goes_after_the_last(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    async with operating(cluster, namespace):
        await _create(cluster, namespace, "one")
        await recorder.wait_for(WIDGET, namespace, "one", _is_ready)
        await cluster.controlplane.admin.delete(WIDGET.path(namespace, "one"))
        await recorder.wait_for(WIDGET, namespace, "one", lambda item: item is None)
        await recorder.until(lambda: recorder.deleted(CONFIG_MAP)["one"] == 1)
    # By the revision of the database: each resource comes by a watch of its own, in its own time.
    history = sorted(recorder.log, key=lambda version: int(version.object["metadata"]["resourceVersion"]))
    steps = [
        (version.kind, version.event, names.FINALIZER in version.object["metadata"].get("finalizers", ()))
        for version in history
        if version.name == "one"
    ]
    marked = steps.index(("Widget", "MODIFIED", True))
    made = steps.index(("ConfigMap", "ADDED", False))
    removed = steps.index(("ConfigMap", "DELETED", False))
    gone = [step[:2] for step in steps].index(("Widget", "DELETED"))
    assert marked < made < removed < gone


async def test_deleted_before_it_was_ever_looked_at_it_goes_without_a_trace(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    await _create(cluster, namespace, "early")
    await cluster.controlplane.admin.delete(WIDGET.path(namespace, "early"))
    async with operating(cluster, namespace):
        await _create(cluster, namespace, "late")
        await recorder.wait_for(WIDGET, namespace, "late", _is_ready)
    assert recorder.created(CONFIG_MAP)["early"] == 0


async def test_a_bug_shows_on_its_object_and_stops_nobody_else(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    async with operating(cluster, namespace):
        await _create(cluster, namespace, "broken", explode=True)
        found = await recorder.wait_for(
            WIDGET, namespace, "broken", lambda item: condition(item, "Ready").get("reason") == "InternalError"
        )
        assert "because of an error of its own; see the operator's log" in condition(found, "Ready")["message"]
        await _create(cluster, namespace, "fine")
        await recorder.wait_for(WIDGET, namespace, "fine", _is_ready)
        await cluster.controlplane.admin.patch(WIDGET.path(namespace, "broken"), {"spec": {"explode": False}})
        await recorder.wait_for(WIDGET, namespace, "broken", _is_ready)


async def test_a_reader_of_many_is_woken_by_what_it_counts_and_by_nothing_else(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    async with operating(cluster, namespace) as operator:
        await _create(cluster, namespace, "counter")
        await _create(cluster, namespace, "red", labels={"team": "red"})
        await recorder.wait_for(
            WIDGET, namespace, "counter", lambda item: bool(item) and item.get("status", {}).get("peers") == 1
        )
        await recorder.wait_for(WIDGET, namespace, "red", _is_ready)
        before = await _settled(operator)
        await cluster.controlplane.admin.patch(
            WIDGET.path(namespace, "red"), {"metadata": {"annotations": {"irrelevant": "yes"}}}
        )
        async with asyncio.timeout(60):
            while _reconciles(operator) == before:
                await asyncio.sleep(0.01)
        assert await _settled(operator) == before + 1  # red itself, not its reader
        await cluster.controlplane.admin.delete(WIDGET.path(namespace, "red"))
        await recorder.wait_for(
            WIDGET, namespace, "counter", lambda item: bool(item) and item["status"].get("peers") == 0
        )


async def test_a_reader_by_name_follows_what_it_reads(cluster: Cluster, namespace: str, recorder: Recorder) -> None:
    async with operating(cluster, namespace):
        await _create(cluster, namespace, "reader", friend="friend")
        await recorder.wait_for(WIDGET, namespace, "reader", _is_ready)
        await _create(cluster, namespace, "friend", explode=True)
        await recorder.wait_for(
            WIDGET, namespace, "reader", lambda item: bool(item) and item["status"].get("friendExplodes") is True
        )


async def test_what_is_made_once_is_never_changed_and_what_is_shared_is_everybodys(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    async with operating(cluster, namespace):
        await _create(cluster, namespace, "first", stamp="one")
        await _create(cluster, namespace, "second", stamp="two")
        for name in ("first", "second"):
            await recorder.wait_for(WIDGET, namespace, name, _is_ready)
        shared = await admin.get(ACCOUNT.path(namespace, "everybodys"))
        await admin.patch(WIDGET.path(namespace, "first"), {"spec": {"stamp": "changed"}})
        await recorder.wait_for(
            WIDGET, namespace, "first", lambda item: bool(item) and item["status"].get("observedGeneration") == 2
        )
        own = await admin.get(ACCOUNT.path(namespace, "first-once"))
        assert own["metadata"]["annotations"]["stamp"] == "one"
        assert own["metadata"]["ownerReferences"][0]["name"] == "first"
        assert "ownerReferences" not in shared["metadata"]
        assert await admin.get(ACCOUNT.path(namespace, "everybodys")) == shared


async def test_what_is_made_once_under_a_name_that_is_taken_is_left_to_its_owner(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    admin = cluster.controlplane.admin
    for name in ("third-once", "everybodys"):
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        await admin.create(ACCOUNT.path(namespace), body)
    async with operating(cluster, namespace):
        await _create(cluster, namespace, "third", stamp="three")
        await recorder.wait_for(
            WIDGET, namespace, "third", lambda item: condition(item, "Ready").get("status") == "False"
        )
        assert "annotations" not in (await admin.get(ACCOUNT.path(namespace, "third-once")))["metadata"]


async def test_a_kind_without_its_definition_is_named_and_the_others_are_served(
    cluster: Cluster, namespace: str, recorder: Recorder
) -> None:
    (port,) = free_ports(1)
    async with operating(cluster, namespace, KIND, ABSENT, port=port):
        await _create(cluster, namespace, "served")
        await recorder.wait_for(WIDGET, namespace, "served", _is_ready)
        status, words = await health(port, "/readyz")
        assert status == 503
        assert "notes.toys.modelyard.dev" in words
        assert (await health(port, "/healthz"))[0] == 200


async def _settled(operator: Operator) -> float:
    """Wait until nothing is waiting or being worked on, and return how many reconciles there were."""
    async with asyncio.timeout(60):
        while not operator.queue.idle:
            await asyncio.sleep(0.01)
    return _reconciles(operator)


def _reconciles(operator: Operator) -> float:
    samples = [sample for metric in operator.metrics.registry.collect() for sample in metric.samples]
    return sum(sample.value for sample in samples if sample.name == "modelyard_reconciles_total")
