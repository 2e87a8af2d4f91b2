"""A decision that is remembered is acted on once, wherever the operator dies. Shown with the toy kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.beacons import HOST, create, until_ready
from tests.support.calls import Match
from tests.support.faults import Kill, Rule
from tests.support.subjects import TOY, Subject

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from tests.support.faultproxy import FaultProxy
    from tests.support.operators import OperatorProcess
    from tests.support.recorder import Recorder


@pytest.mark.parametrize("subject", [TOY], ids=["toy"])
async def test_killed_between_remembering_and_acting_it_acts_once_on_what_it_remembered(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess, subject: Subject
) -> None:
    remembering = Match(frozenset({"patch"}), subject.resource.label, namespace, subresource="status")
    rule = proxy.arm(Rule(remembering, Kill(proxied.kill, after_commit=True)))
    await proxied.start()
    uid = (await create(cluster.controlplane.admin, namespace))["metadata"]["uid"]
    await rule.struck()
    await proxied.died()
    remembered = await recorder.wait_for(
        subject.resource, namespace, subject.name, lambda item: bool((item or {}).get("status", {}).get("seat"))
    )
    assert HOST.requests["light", uid] == 0
    await proxied.start()
    ready = await until_ready(recorder, namespace)
    assert ready["status"]["seat"] == remembered["status"]["seat"] == HOST.lit[uid]
    assert HOST.requests["light", uid] == 1
