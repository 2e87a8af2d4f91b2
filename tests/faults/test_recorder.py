"""The recorder sees everything, and its invariants fail when they must."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from modelyard.core.resources import SECRET, Resource
from tests.conftest import fresh_namespace
from tests.support.invariants import Version, duplicates, untruths
from tests.support.recorder import Missed, Recorder, Witness, recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelyard.local.cluster import Cluster

CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")
_OWNER = {"apiVersion": "x.example.com/v1", "kind": "MCP", "name": "m", "uid": "owner", "controller": True}


def _child(name: str, event: str = "ADDED", **metadata: Any) -> Version:
    owned = {"name": name, "namespace": "a", "uid": f"uid-{name}", "ownerReferences": [_OWNER], **metadata}
    return Version(event, "Deployment", {"metadata": owned})


def _owner(generation: int, observed: int, ready: str, since: str, event: str = "MODIFIED") -> Version:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": since, "observedGeneration": observed}
    metadata = {"name": "m", "namespace": "a", "uid": "owner", "generation": generation}
    status = {"observedGeneration": observed, "conditions": [condition]}
    return Version(event, "MCP", {"apiVersion": "x.example.com/v1", "metadata": metadata, "status": status})


_STALE = [_owner(2, 1, "False", "t0"), _owner(2, 1, "True", "t1")]


async def test_every_version_of_an_object_is_kept(cluster: Cluster, namespace: str) -> None:
    admin, path = cluster.controlplane.admin, CONFIG_MAP.path(namespace)
    await admin.create(path, {"metadata": {"name": "before"}})
    async with recording(admin, [CONFIG_MAP], namespace) as recorder:
        assert recorder.now(CONFIG_MAP, namespace, "before") is not None
        for round_ in ("1", "2"):
            await admin.create(path, {"metadata": {"name": "c"}, "data": {"round": round_}})
            await admin.patch(f"{path}/c", {"data": {"more": "yes"}})
            await admin.delete(f"{path}/c")
        await recorder.until(lambda: recorder.deleted(CONFIG_MAP)["c"] == 2)
        events = [version.event for version in recorder.history(CONFIG_MAP, namespace, "c")]
    assert events == ["ADDED", "MODIFIED", "DELETED"] * 2
    assert recorder.created(CONFIG_MAP)["c"] == recorder.deleted(CONFIG_MAP)["c"] == 2
    recorder.assert_invariants()


async def test_waiting_in_vain_says_what_was_seen_last(cluster: Cluster, namespace: str) -> None:
    async with recording(cluster.controlplane.admin, [CONFIG_MAP], namespace) as recorder:
        with pytest.raises(AssertionError, match="never became as wanted; last: None"):
            await recorder.wait_for(CONFIG_MAP, namespace, "never", lambda seen: seen is not None, timeout=0.05)


async def test_a_failed_assertion_of_the_test_comes_through_as_it_is(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(AssertionError, match="the test's own"):
        async with recording(cluster.controlplane.admin, [CONFIG_MAP], namespace):
            raise AssertionError("the test's own")


def test_two_children_of_one_kind_are_a_violation() -> None:
    assert duplicates([_child("m"), _child("m-2")]) == ["MCP m has 2 of Deployment: ['m', 'm-2']"]


def test_a_second_child_after_the_first_has_gone_is_fine() -> None:
    assert duplicates([_child("m"), _child("m", "DELETED"), _child("m-2")]) == []
    assert duplicates([_child("m"), _child("m", "MODIFIED", deletionTimestamp="now"), _child("m-2")]) == []


def test_children_of_different_roles_are_fine() -> None:
    assert duplicates([_child("m"), _child("m-canary")], role=lambda child: child.name) == []


def test_children_of_built_in_kinds_are_not_judged() -> None:
    owner = {**_OWNER, "apiVersion": "apps/v1", "kind": "ReplicaSet"}
    assert duplicates([_child("a", ownerReferences=[owner]), _child("b", ownerReferences=[owner])]) == []


def test_ready_for_an_older_generation_is_a_violation() -> None:
    (violation,) = untruths(_STALE)
    assert "Ready is written for generation 1, but the object is at 2" in violation


def test_an_edit_of_a_ready_object_is_no_violation() -> None:
    assert untruths([_owner(1, 1, "True", "t0"), _owner(2, 1, "True", "t0"), _owner(2, 2, "True", "t0")]) == []


def test_a_memory_that_is_written_before_the_status_is_no_violation() -> None:
    edited = _owner(2, 1, "True", "t0")
    remembered = {**edited.object, "status": {**edited.status, "drainStartedAt": "t1"}}
    assert untruths([_owner(1, 1, "True", "t0"), edited, Version("MODIFIED", edited.kind, remembered)]) == []


def test_an_observed_generation_that_goes_back_is_a_violation() -> None:
    (violation,) = untruths([_owner(2, 2, "False", "t0"), _owner(2, 1, "False", "t0")])
    assert "observedGeneration went back from 2 to 1" in violation


def test_a_transition_time_that_moves_without_news_is_a_violation() -> None:
    (violation,) = untruths([_owner(1, 1, "True", "t0"), _owner(1, 1, "True", "t1")])
    assert "lastTransitionTime of Ready moved" in violation
    assert untruths([_owner(1, 1, "False", "t0"), _owner(1, 1, "True", "t1")]) == []


@pytest.mark.parametrize(
    ("said", "violation"),
    [
        ({"readyReplicas": 0}, "Available is True, but no pod is ready"),
        ({"readyReplicas": 1}, ""),
        ({"phase": "Creating"}, "the phase is Creating, but the condition Ready says otherwise"),
        ({"phase": "Ready"}, ""),
    ],
)
def test_a_status_that_contradicts_itself_is_a_violation(said: dict[str, Any], violation: str) -> None:
    version = _owner(1, 1, "True", "t0")
    status = version.object["status"]
    status |= said
    status["conditions"].append({"type": "Available", "status": "True"})
    assert [found.partition(": ")[2] for found in untruths([version])] == ([violation] if violation else [])


def test_the_status_of_built_in_kinds_is_not_judged() -> None:
    theirs = [Version(v.event, v.kind, {**v.object, "apiVersion": "apps/v1"}) for v in _STALE]
    assert (len(untruths(_STALE)), untruths(theirs)) == (1, [])


async def test_the_recorder_fails_a_test_by_its_invariants(cluster: Cluster) -> None:
    recorder = Recorder(cluster.controlplane.admin, [])
    recorder.log += [_child("m"), _child("m-2")]
    with pytest.raises(AssertionError, match="has 2 of Deployment"):
        recorder.assert_invariants()


async def test_a_witness_tells_a_recorder_all_of_its_namespace_and_nothing_of_others(cluster: Cluster) -> None:
    admin = cluster.controlplane.admin
    async with (
        Witness(admin, [CONFIG_MAP]).running() as witness,
        fresh_namespace(cluster) as here,
        fresh_namespace(cluster) as elsewhere,
    ):
        await admin.create(CONFIG_MAP.path(here), {"metadata": {"name": "before"}})
        async with recording(admin, [CONFIG_MAP, SECRET], here, witness) as recorder:
            for place in (elsewhere, here):
                await admin.create(CONFIG_MAP.path(place), {"metadata": {"name": "c"}})
                await admin.create(SECRET.path(place), {"metadata": {"name": "s"}})
                await admin.delete(CONFIG_MAP.path(place, "c"))
            await recorder.until(lambda: bool(recorder.deleted(CONFIG_MAP)["c"] and recorder.created(SECRET)["s"]))
        await admin.create(CONFIG_MAP.path(here), {"metadata": {"name": "after"}})
    assert {version.namespace for version in recorder.log} == {here}
    created = recorder.created(CONFIG_MAP)
    assert {name: created[name] for name in ("before", "c", "after")} == {"before": 1, "c": 1, "after": 0}


async def test_what_a_witness_misses_fails_the_tests_that_run_and_no_later_one() -> None:
    server = _Forgetful()
    async with Witness(server, [CONFIG_MAP]).running() as witness:
        with pytest.raises(Missed, match="too old resource version"):
            async with recording(server, [CONFIG_MAP], "a", witness) as recorder:
                server.forgets.set()
                await recorder.until(lambda: False)
        await server.follows.wait()
        async with recording(server, [CONFIG_MAP], "b", witness) as recorder:
            assert [str(version) for version in recorder.log] == ["ConfigMap b/x at resourceVersion 2"]


class _Forgetful:
    """A server that forgets, once, what a watch wants to go on from."""

    def __init__(self) -> None:
        self.forgets, self.follows = asyncio.Event(), asyncio.Event()

    async def get(self, path: str) -> dict[str, Any]:
        revision = "2" if self.forgets.is_set() else "1"
        meta = {"namespace": "b", "name": "x", "uid": "x", "resourceVersion": revision}
        return {"metadata": {"resourceVersion": revision}, "items": [{"metadata": meta}]}

    async def follow(self, path: str) -> AsyncIterator[dict[str, Any]]:
        await self.forgets.wait()
        if path.endswith("resourceVersion=1"):
            yield {"type": "ERROR", "object": {"metadata": {}, "code": 410, "message": "too old resource version"}}
        else:
            self.follows.set()
            await asyncio.Event().wait()


class _Expired:
    """A server that has forgotten what the recorder wants to go on from."""

    async def get(self, path: str) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "1"}, "items": []}

    async def follow(self, path: str) -> AsyncIterator[dict[str, Any]]:
        yield {"type": "ERROR", "object": {"metadata": {}, "code": 410, "message": "too old resource version"}}


async def test_a_recording_with_a_gap_fails_the_test() -> None:
    with pytest.raises(Missed, match="too old resource version"):
        async with Recorder(_Expired(), [CONFIG_MAP]).running() as recorder:
            await recorder.wait_for(CONFIG_MAP, "a", "b", lambda seen: seen is not None)
