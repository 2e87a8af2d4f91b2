"""Whatever happens to a write, and wherever the operator dies, the end and the journey are the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import DEPLOYMENT, SERVICE, VOLUME_CLAIM
from tests.support.calls import WRITES, Match
from tests.support.faults import FOREVER, Answer, Cut, Delay, Hold, HoldEvents, Kill, Rule
from tests.support.mcps import create, edit, until_ready
from tests.support.services import SERVICES, create_pair, until_service
from tests.support.subjects import MCP_SERVER, MODEL_AND_SERVICE, SUBJECTS, Subject

if TYPE_CHECKING:
    from modelyard.local.cluster import Cluster
    from tests.support.faultproxy import FaultProxy
    from tests.support.operators import OperatorProcess
    from tests.support.recorder import Recorder

EVERY_SUBJECT = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)


def _own_writes(namespace: str) -> Match:
    return Match(verbs=WRITES, namespace=namespace)


async def _journey_is_clean(
    cluster: Cluster, recorder: Recorder, namespace: str, subject: Subject = MCP_SERVER
) -> None:
    """The end is as without faults: each child once, of ours, and nothing was deleted on the way."""
    for resource in {resource for resource, _ in subject.children}:
        created = recorder.created(resource)
        # Kubernetes creates these in every namespace.
        for own in ("kube-root-ca.crt", "default"):
            created.pop(own, None)
        assert created == {name: 1 for of, name in subject.children if of == resource}
        assert not recorder.deleted(resource)
    resource, name = subject.children[-1]
    child = await cluster.controlplane.admin.get(resource.path(namespace, name))
    assert child["metadata"]["ownerReferences"][0]["kind"] == subject.resource.kind


async def _one_life(proxy: FaultProxy, proxied: OperatorProcess, rule: Rule, ready: asyncio.Future[Any]) -> None:
    """Run the operator until the rule kills it, or until the object is ready."""
    struck = asyncio.ensure_future(proxy.arm(rule).struck())
    await proxied.start()
    await asyncio.wait({struck, ready}, return_when=asyncio.FIRST_COMPLETED)
    proxy.disarm()
    if struck.done():
        await struck
        await proxied.died()
    struck.cancel()


@pytest.mark.parametrize("after_commit", [True, False], ids=["after commit", "before commit"])
@EVERY_SUBJECT
async def test_killed_at_every_write_it_ends_the_same(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess,
    subject: Subject, after_commit: bool,
) -> None:  # fmt: skip
    """Each life of the operator brings the object one write further: the last one of it, or the one before."""
    await subject.create(cluster.controlplane.admin, namespace)
    ready = asyncio.ensure_future(subject.until_ready(recorder, namespace))
    lives = 0
    while not ready.done():
        passing = 0 if after_commit else min(lives, 1)
        rule = Rule(_own_writes(namespace), Kill(proxied.kill, after_commit=after_commit), after=passing)
        await _one_life(proxy, proxied, rule, ready)
        lives += 1
    await ready
    assert lives > len(subject.children)
    await _journey_is_clean(cluster, recorder, namespace, subject)


@pytest.mark.parametrize("first", [0, 1], ids=["1st, 3rd", "2nd, 4th"])
@EVERY_SUBJECT
async def test_lost_answers_cause_no_second_creation(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess,
    subject: Subject, first: int,
) -> None:  # fmt: skip
    lost = [Rule(_own_writes(namespace), Cut(after_commit=True), point) for point in range(first, subject.writes, 2)]
    rules = [proxy.arm(rule) for rule in lost]
    await proxied.start()
    await subject.create(cluster.controlplane.admin, namespace)
    await subject.until_ready(recorder, namespace)
    assert all(rule.strikes for rule in rules[:-1])
    await _journey_is_clean(cluster, recorder, namespace, subject)
    for resource in {resource for resource, _ in subject.children}:
        expected = [of for of, _ in subject.children if of == resource]
        assert len(proxy.calls(Match(frozenset({"create"}), resource.label, namespace))) == len(expected)


async def test_what_is_shared_is_asked_for_once_when_the_answer_to_its_creation_is_lost(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess
) -> None:
    creation = Match(frozenset({"create"}), VOLUME_CLAIM.label, namespace)
    rule = proxy.arm(Rule(creation, Cut(after_commit=True)))
    # The watch would tell of the claim sooner or later, and hide whether it was looked up before the next try.
    watch = Match(frozenset({"watch"}), VOLUME_CLAIM.label, "")
    proxy.arm(Rule(watch, HoldEvents(gate := asyncio.Event())))
    await proxied.start()
    await MODEL_AND_SERVICE.create(cluster.controlplane.admin, namespace)
    await rule.struck()
    await MODEL_AND_SERVICE.until_ready(recorder, namespace)
    gate.set()
    assert len(proxy.calls(creation)) == 1


@EVERY_SUBJECT
@pytest.mark.parametrize(
    "fault",
    [
        Answer(409, "Conflict"),
        Answer(429, retry_after=1),
        Answer(500),
        Answer(503),
        Delay(0.5),
        Cut(),
    ],
    ids=["409", "429", "500", "503", "late", "cut"],
)
async def test_trouble_at_every_first_write_does_not_show(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess,
    subject: Subject, fault: Any,
) -> None:  # fmt: skip
    # Three failures in a row for one object: one more would be shown.
    for resource in (DEPLOYMENT, SERVICE, *subject.written):
        proxy.arm(Rule(Match(verbs=WRITES, namespace=namespace, resource=resource.label), fault))
    await proxied.start()
    await subject.create(cluster.controlplane.admin, namespace)
    await subject.until_ready(recorder, namespace)
    await _journey_is_clean(cluster, recorder, namespace, subject)
    history = recorder.history(subject.resource, namespace, subject.name)
    assert {version.conditions["Ready"]["reason"] for version in history if version.conditions} <= subject.reasons
    ours = {resource.kind for resource in subject.written}
    events = [version.object for version in recorder.log if version.kind == "Event"]
    assert not [event for event in events if event["type"] == "Warning" and event["regarding"]["kind"] in ours]


@pytest.mark.parametrize("point", range(4))
async def test_killed_while_an_edit_is_carried_out_it_ends_the_same(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess, point: int
) -> None:
    admin = cluster.controlplane.admin
    await proxied.start()
    await create(admin, namespace, replicas=1, env=[{"name": "A", "value": "1"}])
    await until_ready(recorder, namespace)
    rule = proxy.arm(Rule(_own_writes(namespace), Kill(proxied.kill, after_commit=True), after=point))
    edited = await edit(admin, namespace, replicas=2, env=[{"name": "B", "value": "2"}])
    await rule.struck()
    await proxied.died()
    await proxied.start()
    found = await until_ready(recorder, namespace, after=edited)
    assert found["status"]["readyReplicas"] == 2
    await _journey_is_clean(cluster, recorder, namespace)
    spec = (await admin.get(DEPLOYMENT.path(namespace, "tools")))["spec"]
    assert {"name": "B", "value": "2"} in spec["template"]["spec"]["containers"][0]["env"]
    assert "A" not in {entry["name"] for entry in spec["template"]["spec"]["containers"][0]["env"]}
    assert spec["replicas"] == 2


async def test_a_request_that_hangs_holds_up_nobody_else(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess
) -> None:
    gate = asyncio.Event()
    rule = proxy.arm(Rule(Match(verbs=WRITES, namespace=namespace, name="", resource="deployments.apps"), Hold(gate)))
    await proxied.start()
    await create(cluster.controlplane.admin, namespace, "stuck")
    await rule.struck()
    await create(cluster.controlplane.admin, namespace, "other")
    await until_ready(recorder, namespace, "other")
    gate.set()
    await until_ready(recorder, namespace, "stuck")


async def test_a_status_that_has_no_place_is_tried_again_until_it_has(
    cluster: Cluster, namespace: str, recorder: Recorder, proxy: FaultProxy, proxied: OperatorProcess
) -> None:
    """The answer of a definition without its status subresource, which is also that of an object that is gone."""
    statuses = Match(verbs=WRITES, namespace=namespace, resource=SERVICES.label, subresource="status")
    rule = proxy.arm(Rule(statuses, Answer(404, "NotFound"), times=FOREVER))
    await proxied.start()
    await create_pair(cluster.controlplane.admin, namespace)
    async with asyncio.timeout(60):
        # More often than anything that happens to its children would make it try.
        while rule.strikes < 8:
            await asyncio.sleep(0.05)
    proxy.disarm()
    await until_service(recorder, namespace)
    assert proxied.log.read_text().count("lost the status subresource?") == 1
