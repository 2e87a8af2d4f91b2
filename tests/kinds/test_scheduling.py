"""What is kept of the scheduler's messages: what stays the same while it tries again."""

from __future__ import annotations

import pytest

from modelyard.core.objects import Stored
from modelyard.core.resources import POD
from modelyard.kinds.shared import pod_problems
from modelyard.kinds.shared.scheduling import (
    Placement,
    device_limits,
    placement_of,
    unschedulable_reasons,
    waits_for_binding,
)

MESSAGES = {
    "counts of nodes": (
        "0/3 nodes are available: 1 Insufficient cpu, 3 Insufficient nvidia.com/gpu.",
        ("Insufficient cpu", "Insufficient nvidia.com/gpu"),
    ),
    "what preemption came to": (
        "0/2 nodes are available: 2 Insufficient memory. preemption: 0/2 nodes are available: 2 No preemption victims.",
        ("Insufficient memory",),
    ),
    "what came of claims for devices": (
        "0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: not eligible.",
        ("Too many pods",),
    ),
    "a comma within a reason": (
        "0/2 nodes are available: 1 node(s) had untolerated taint {a: b, c}, 1 Insufficient cpu.",
        ("Insufficient cpu", "node(s) had untolerated taint {a: b, c}"),
    ),
    "a reason for all nodes at once": (
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: not helpful.",
        ("pod has unbound immediate PersistentVolumeClaims",),
    ),
    "what preemption could not find": (
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
        ("pod has unbound immediate PersistentVolumeClaims",),
    ),
    "words of another form": ("no nodes available to schedule pods", ("no nodes available to schedule pods",)),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_of_a_message_only_what_is_missing_is_kept(name: str):
    message, kept = MESSAGES[name]
    assert unschedulable_reasons(message) == kept


def test_the_same_lack_on_more_nodes_is_no_news():
    one, other = "0/1 nodes are available: 1 Insufficient cpu.", "0/9 nodes are available: 9 Insufficient cpu."
    assert unschedulable_reasons(one) == unschedulable_reasons(other)


@pytest.mark.parametrize(
    ("complaint", "expected"),
    [
        ("pod has unbound immediate PersistentVolumeClaims", True),
        ('persistentvolumeclaim "llmkube-model-cache" not found', True),
        ("Insufficient cpu", False),
        ("", False),
    ],
)
def test_a_pod_that_waits_for_its_claim_is_told_from_others(complaint: str, expected: bool):
    assert waits_for_binding(Placement(waits=True, message=complaint)) is expected


def test_a_claim_that_is_being_deleted_is_let_go_by_those_who_use_it():
    placement = Placement(waits=True, message='persistentvolumeclaim "llmkube-model-cache" is being deleted')
    assert "set spec.replicas" in pod_problems.unschedulable(placement, pod_problems.DEFAULT_REMEDIES).remedy


def test_devices_are_what_has_a_domain_in_its_name():
    limits = [{"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "2"}, {"amd.com/gpu": 1, "gpu.intel.com/xe": "0"}]
    assert device_limits(limits) == (("amd.com/gpu", 1), ("nvidia.com/gpu", 2))


def test_a_pod_that_many_look_at_is_read_once():
    body = {"metadata": {"name": "waits"}, "status": {"phase": "Pending"}}
    assert placement_of(Stored.from_dict(POD, body)) is placement_of(Stored.from_dict(POD, body))


def test_a_pod_that_goes_away_is_not_taken_for_what_it_was():
    waits = {"type": "PodScheduled", "status": "False", "message": "no"}
    status = {"phase": "Pending", "conditions": [waits]}
    there = Stored.from_dict(POD, {"metadata": {"name": "a"}, "status": status})
    leaving = {"name": "a", "deletionTimestamp": "2026-01-02T03:04:05Z"}
    going = Stored.from_dict(POD, {"metadata": leaving, "status": status})
    assert (placement_of(there).waits, placement_of(going).waits) == (True, False)
