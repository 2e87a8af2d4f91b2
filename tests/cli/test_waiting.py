"""Who waits for GPUs and who holds them, by pods alone."""

from __future__ import annotations

from typing import Any

from modelyard.cluster.waiting import Holder, Supply, gpu_queue
from modelyard.core.objects import Stored
from modelyard.core.resources import NODE, POD

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def pod(service: str, gpus: int = 1, *, kind: str = "inferenceservice", ready: bool = False, **more: Any) -> Stored:
    unscheduled = {
        "type": "PodScheduled",
        "status": "False",
        "message": f"0/1 nodes are available: 1 Insufficient {GPU}.",
        "lastTransitionTime": "2026-11-16T06:00:00Z",
    }
    conditions = [{"type": "Ready", "status": "True"}] if ready else [unscheduled]
    labels = {"modelyard.dev/kind": kind, "app.kubernetes.io/instance": service}
    meta = {
        "name": f"{service}-0",
        "namespace": "team",
        "labels": labels,
        "annotations": {"modelyard.dev/created": more.pop("created", "2026-11-16T05:00:00Z")},
        **more.pop("metadata", {}),
    }
    spec = {"containers": [{"resources": {"limits": {GPU: gpus}}}], **more}
    phase = "Running" if ready else "Pending"
    return Stored.from_dict(POD, {"metadata": meta, "spec": spec, "status": {"phase": phase, "conditions": conditions}})


def names(*pods: Stored) -> list[tuple[int, str]]:
    return [(one.position, one.name) for one in gpu_queue(pods, ()).waiting]


def test_priority_goes_before_age() -> None:
    old = pod("old", created="2026-11-16T01:00:00Z")
    young = pod("young", created="2026-11-16T02:00:00Z")
    urgent = pod("urgent", created="2026-11-16T03:00:00Z", priority=1000)
    assert names(young, old, urgent) == [(1, "urgent"), (2, "old"), (3, "young")]


def test_an_object_waits_once_however_many_pods_it_has() -> None:
    assert names(pod("chat"), pod("chat", metadata={"name": "chat-1"})) == [(1, "chat")]


def test_an_object_with_a_pod_that_is_ready_does_not_wait() -> None:
    assert names(pod("chat"), pod("chat", ready=True)) == []


def test_what_goes_or_has_ended_neither_waits_nor_holds() -> None:
    going = pod("going", metadata={"deletionTimestamp": "2026-11-16T06:00:00Z"})
    assert names(going) == []


def test_the_largest_holder_of_the_same_resource_comes_first() -> None:
    holders = (pod("small", 1, ready=True), pod("large", 4, kind="modeldeployment", ready=True, nodeName="a"))
    (one,) = gpu_queue((*holders, pod("chat", 2)), ()).waiting
    assert (one.resource, one.gpus, one.since) == (GPU, 2, "2026-11-16T06:00:00Z")
    assert one.held_by == (
        Holder("ModelDeployment", "team", "large", 4),
        Holder("InferenceService", "team", "small", 1),
    )


def test_the_gpus_of_all_nodes_are_counted() -> None:
    nodes = [
        Stored.from_dict(NODE, {"metadata": {"name": n}, "status": {"capacity": {GPU: "8", "cpu": "4"}}}) for n in "ab"
    ]
    assert gpu_queue([pod("chat", 3, ready=True)], nodes).supplies == (Supply(GPU, 16, 3),)
