"""The lives of InferenceHosts on a real cluster, with a daemon that answers over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelyard.core.resources import EVENT, SECRET
from tests.support.fleets import ADDRESS, HOSTS, create_host, is_ready
from tests.support.hostdaemon import HostDaemon
from tests.support.mcps import condition, says

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.local.cluster import Cluster
    from modelyard.local.raw_client import RawClient
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.usefixtures("standing_operator")

RETURN_SECONDS = 60.0
"""A host that returns is believed half a minute after it was found gone, so that one that flaps changes nothing."""


@pytest.fixture
def admin(cluster: Cluster) -> RawClient:
    return cluster.controlplane.admin


@pytest.fixture
async def daemon() -> AsyncIterator[HostDaemon]:
    async with HostDaemon().serving() as running:
        yield running


@pytest.mark.quick
async def test_a_host_becomes_ready_shows_what_it_has_and_goes_at_once_when_nothing_is_on_it(
    admin: RawClient, namespace: str, recorder: Recorder, daemon: HostDaemon
) -> None:
    daemon.shows("org/other", "ready", memoryBytes=1 << 30)
    await create_host(admin, namespace, "studio", daemon.port)
    found = await recorder.wait_for(HOSTS, namespace, "studio", is_ready)
    status = found["status"]
    assert (status["phase"], status["address"], status["version"]) == ("Ready", ADDRESS, "test")
    assert status["memory"] == {"total": "16384Mi", "free": "15360Mi", "allocated": "0Mi", "pressure": "normal"}
    assert [(model["id"], model["state"]) for model in status["models"]] == [("org/other", "ready")]
    await admin.delete(HOSTS.path(namespace, "studio"))
    await recorder.until(lambda: recorder.now(HOSTS, namespace, "studio") is None)
    assert daemon.asked == []


async def test_a_token_is_sent_as_soon_as_its_secret_is_there_and_shown_nowhere(
    admin: RawClient, namespace: str, recorder: Recorder, daemon: HostDaemon
) -> None:
    daemon.token = "first"
    await create_host(admin, namespace, "studio", daemon.port, auth={"secretRef": {"name": "studio"}})
    missing = await recorder.wait_for(HOSTS, namespace, "studio", says("SecretNotFound"), RETURN_SECONDS)
    assert condition(missing, "Authenticated")["status"] == "False"
    body = {"metadata": {"name": "studio"}, "stringData": {"token": "first\n"}}
    await admin.create(SECRET.path(namespace), body)
    await recorder.wait_for(HOSTS, namespace, "studio", is_ready, RETURN_SECONDS)
    shown = str([version.object for version in recorder.log if version.kind in (HOSTS.kind, EVENT.kind)])
    assert "first" not in shown


async def test_an_address_that_was_not_allowed_is_never_dialled_or_published(
    admin: RawClient, namespace: str, recorder: Recorder, daemon: HostDaemon
) -> None:
    await create_host(admin, namespace, "loop", daemon.port, endpoint=f"http://127.0.0.1:{daemon.port}")
    found = await recorder.wait_for(HOSTS, namespace, "loop", says("AddressNotAllowed"), RETURN_SECONDS)
    assert (found["status"]["address"], daemon.probes) == ("", 0)
    await create_host(admin, namespace, "pods", daemon.port, address="10.96.0.1")
    found = await recorder.wait_for(HOSTS, namespace, "pods", says("AddressNotAllowed"), RETURN_SECONDS)
    assert found["status"]["address"] == ""
