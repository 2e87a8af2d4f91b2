"""The lives of InferenceModels on a real cluster, with hosts whose daemons answer over HTTP."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import ENDPOINT_SLICE, ENDPOINTS, SERVICE
from modelyard.kinds.inferencehost import INFERENCE_HOST
from modelyard.kinds.inferencemodel import INFERENCE_MODEL
from modelyard.local.raw_client import RawClientError
from tests.kinds.cases import ALL_CASES
from tests.support.fleets import ADDRESS, HOSTS, MODELS, create_host, create_model, is_ready, slice_name, until_ready
from tests.support.hostdaemon import HostDaemon
from tests.support.mcps import condition, says

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from modelyard.kinds.contract import Kind
    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.conftest import Kubectl
    from tests.kinds.cases import Case
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.usefixtures("standing_operator")

Json = dict[str, Any]

REST_SECONDS = 90.0
"""Long enough for several probes of each host."""


@pytest.fixture
def admin(cluster: Cluster) -> RawClient:
    return cluster.controlplane.admin


@pytest.fixture
async def daemons() -> AsyncIterator[list[HostDaemon]]:
    """Three daemons, each at a port of its own."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(HostDaemon().serving()) for _ in range(3)]


async def join(admin: RawClient, namespace: str, daemons: list[HostDaemon]) -> None:
    """Create an InferenceHost for each daemon: host-0 and so on, each at an address of its own."""
    for number, daemon in enumerate(daemons):
        await create_host(admin, namespace, f"host-{number}", daemon.port, address=f"198.41.0.{number + 1}")


def endpoints(recorder: Recorder, namespace: str) -> dict[str, bool]:
    """Return the published addresses, and whether each gets requests."""
    names = {version.name for version in recorder.log if version.kind == "EndpointSlice"}
    slices = [recorder.now(ENDPOINT_SLICE, namespace, name) for name in names]
    entries = [entry for one in slices if one for entry in one.get("endpoints") or ()]
    return {entry["addresses"][0]: entry["conditions"]["ready"] for entry in entries}


async def until(holds: Callable[[], bool], seconds: float) -> None:
    """Wait until something holds of a daemon, which no watch tells of."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.05)


async def until_gone(recorder: Recorder, resource: Any, namespace: str, name: str) -> None:
    await recorder.until(lambda: recorder.now(resource, namespace, name) is None)


@pytest.mark.quick
async def test_a_model_on_one_host_becomes_ready_and_is_unloaded_when_it_goes(
    admin: RawClient, namespace: str, recorder: Recorder, daemons: list[HostDaemon]
) -> None:
    daemon = daemons[0]
    await create_host(admin, namespace, "studio", daemon.port)
    await create_model(admin, namespace)
    found = await until_ready(recorder, namespace)
    assert daemon.asked == ["load org/qwen"]
    assert (found["status"]["readyReplicas"], found["status"]["replicas"]) == (1, 1)
    part = await recorder.wait_for(
        ENDPOINT_SLICE, namespace, slice_name(port=daemon.port), lambda item: bool((item or {}).get("endpoints"))
    )
    assert part
    assert part["endpoints"] == [
        {
            "addresses": [ADDRESS],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "hostname": "studio",
            "targetRef": {"kind": "InferenceHost", "namespace": namespace, "name": "studio"},
        }
    ]
    assert part["ports"] == [{"name": "http", "port": daemon.port, "protocol": "TCP"}]
    await admin.delete(MODELS.path(namespace, "qwen"))
    await until_gone(recorder, MODELS, namespace, "qwen")
    assert (daemon.asked, daemon.models) == (["load org/qwen", "unload org/qwen"], {})
    # Not by garbage collection, which would come to it later: the next to need the name need not wait.
    for path in (SERVICE.path(namespace, "qwen"), ENDPOINT_SLICE.path(namespace, slice_name(port=daemon.port))):
        assert not await admin.answers(path)
    await admin.delete(HOSTS.path(namespace, "studio"))
    await until_gone(recorder, HOSTS, namespace, "studio")


async def test_kubectl_shows_and_scales_it(
    admin: RawClient, namespace: str, recorder: Recorder, daemons: list[HostDaemon], kubectl: Kubectl
) -> None:
    await join(admin, namespace, daemons)
    await create_model(admin, namespace)
    await until_ready(recorder, namespace)
    head, row = (await kubectl("get", "imodel", "-n", namespace)).splitlines()
    assert head.split() == ["NAME", "MODEL", "REPLICAS", "READY", "AGE"]
    assert row.split()[:4] == ["qwen", "org/qwen", "1", "1"]
    await kubectl("scale", "imodel/qwen", "--replicas=3", "-n", namespace)
    await recorder.wait_for(
        MODELS, namespace, "qwen", lambda item: is_ready(item) and (item or {})["status"]["readyReplicas"] == 3
    )
    await recorder.wait_for(
        HOSTS, namespace, "host-2", lambda item: (item or {})["status"]["memory"]["allocated"] == "1024Mi"
    )
    head, *rows = (await kubectl("get", "ihost", "-n", namespace)).splitlines()
    assert head.split() == ["NAME", "ENDPOINT", "READY", "MODELS", "FREE", "AGE"]
    assert [row.split()[0] for row in rows] == ["host-0", "host-1", "host-2"]


async def test_at_rest_hosts_are_probed_and_nothing_is_written(
    admin: RawClient, namespace: str, recorder: Recorder, daemons: list[HostDaemon]
) -> None:
    await join(admin, namespace, daemons)
    await create_model(admin, namespace, replicas=3)
    await until_ready(recorder, namespace)
    await recorder.until(
        lambda: all(
            (recorder.now(HOSTS, namespace, f"host-{number}") or {})["status"]["modelCount"] == 1 for number in range(3)
        )
    )
    for _ in range(2):
        written = len(recorder.log)
        for daemon in daemons:
            daemon.probes = 0
        await until(lambda: all(daemon.probes > 1 for daemon in daemons), REST_SECONDS)
    assert len(recorder.log) == written


async def test_a_service_that_is_not_ours_is_left_alone_and_gets_no_endpoints(
    admin: RawClient, namespace: str, recorder: Recorder, daemons: list[HostDaemon]
) -> None:
    foreign = {"metadata": {"name": "qwen"}, "spec": {"ports": [{"port": 80}]}}
    await admin.create(SERVICE.path(namespace), foreign)
    await create_host(admin, namespace, "studio", daemons[0].port)
    await create_model(admin, namespace)
    await recorder.wait_for(MODELS, namespace, "qwen", says("NameConflict"))
    assert (endpoints(recorder, namespace), daemons[0].asked) == ({}, [])


async def test_a_selector_that_is_added_to_its_service_and_an_edit_of_its_slice_are_undone(
    admin: RawClient, namespace: str, recorder: Recorder, daemons: list[HostDaemon]
) -> None:
    await create_host(admin, namespace, "studio", daemons[0].port)
    await create_model(admin, namespace)
    await until_ready(recorder, namespace)
    service, part = SERVICE.path(namespace, "qwen"), slice_name(port=daemons[0].port)
    added = await admin.patch(service, {"spec": {"selector": {"app": "something-else"}}})
    await recorder.wait_for_later(added, SERVICE, lambda item: "selector" not in item["spec"])
    before = recorder.now(ENDPOINT_SLICE, namespace, part)
    assert before
    theirs = [{"addresses": ["198.41.0.66"], "conditions": {"ready": True}}]
    edited = await admin.patch(ENDPOINT_SLICE.path(namespace, part), {"endpoints": theirs})
    await recorder.wait_for_later(edited, ENDPOINT_SLICE, lambda item: item["endpoints"] == before["endpoints"])
    await admin.delete(ENDPOINT_SLICE.path(namespace, part))
    await recorder.until(lambda: recorder.created(ENDPOINT_SLICE)[part] == 2)
    assert endpoints(recorder, namespace)[ADDRESS]
    assert daemons[0].asked == ["load org/qwen"]


async def test_endpoints_of_another_client_with_the_name_of_its_service_are_warned_of(
    admin: RawClient, namespace: str, recorder: Recorder, daemons: list[HostDaemon]
) -> None:
    await admin.create(ENDPOINTS.path(namespace), {"metadata": {"name": "qwen"}, "subsets": []})
    await create_host(admin, namespace, "studio", daemons[0].port)
    await create_model(admin, namespace)
    found = await until_ready(recorder, namespace)
    assert condition(found, "ForeignEndpoints")["reason"] == "NameConflict"


async def test_a_service_that_becomes_headless_is_made_anew(
    admin: RawClient, namespace: str, recorder: Recorder, daemons: list[HostDaemon]
) -> None:
    await create_host(admin, namespace, "studio", daemons[0].port)
    await create_model(admin, namespace)
    await until_ready(recorder, namespace)
    await admin.patch(MODELS.path(namespace, "qwen"), {"spec": {"headless": True}})
    await recorder.wait_for(
        SERVICE, namespace, "qwen", lambda item: bool(item) and (item or {})["spec"]["clusterIP"] == "None"
    )
    await until_ready(recorder, namespace)
    assert daemons[0].asked == ["load org/qwen"]


REFUSED = [
    (case.why, kind, case) for kind, _, case in ALL_CASES if case.invalid and kind in (INFERENCE_HOST, INFERENCE_MODEL)
]


@pytest.mark.parametrize(("kind", "case"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED])
async def test_the_api_server_refuses_what_cannot_be_served(admin: RawClient, kind: Kind, case: Case) -> None:
    assert case.invalid
    body = {"apiVersion": kind.resource.api_version, **case.given[0]}
    with pytest.raises(RawClientError) as refused:
        await admin.create(f"{kind.resource.path('default')}?dryRun=All", body)
    assert case.invalid.field.rpartition(".")[2] in str(refused.value)
