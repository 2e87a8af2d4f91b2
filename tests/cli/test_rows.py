"""What `get` says of an object, by its status alone."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.cluster.rows import NOT_OBSERVED, row
from modelyard.core.objects import Stored
from modelyard.kinds import ALL
from modelyard.kinds.inferencemodel import INFERENCE_MODEL
from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.mcp import MCP
from modelyard.kinds.modeldeployment import MODEL_DEPLOYMENT
from modelyard.kinds.zerfooinferenceservice import ZERFOO_INFERENCE_SERVICE

Json = dict[str, Any]

READY = {"type": "Ready", "status": "True", "reason": "Ready", "message": "all is well"}
WAITS = {"type": "Ready", "status": "False", "reason": "Starting", "message": "pods start"}


def stored(kind: Any, status: Json, **meta: Any) -> Stored:
    body = {"metadata": {"name": "a", "namespace": "b", "generation": 2, **meta}, "spec": {}, "status": status}
    return Stored.from_dict(kind.resource, body)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_an_object_of_any_kind_is_ready_when_its_condition_says_so_of_this_generation(kind: Any) -> None:
    shown = row(stored(kind, {"observedGeneration": 2, "conditions": [READY]}))
    assert (shown.ready, shown.phase, shown.reason) == (True, "Ready", "Ready")


@pytest.mark.parametrize("status", [{}, {"observedGeneration": 1, "conditions": [READY]}], ids=["none", "older"])
def test_a_status_of_no_or_an_older_generation_is_not_taken_for_this_one(status: Json) -> None:
    shown = row(stored(MCP, status))
    assert (shown.ready, shown.phase, shown.reason) == (False, "Pending", NOT_OBSERVED)
    assert "modelyard doctor" in shown.message


@pytest.mark.parametrize(
    ("kind", "status", "count"),
    [
        (MCP, {"readyReplicas": 1, "replicas": 2}, "1/2"),
        (INFERENCE_SERVICE, {"readyReplicas": 1, "replicas": 3, "desiredReplicas": 2}, "1/2"),
        (INFERENCE_SERVICE, {"readyReplicas": 0, "replicas": 0, "desiredReplicas": 0}, "0/0"),
        (MODEL_DEPLOYMENT, {"readyPods": 2, "replicas": 2}, "2/2"),
        (INFERENCE_MODEL, {"readyReplicas": 0, "replicas": 0}, "0/1"),
        (ZERFOO_INFERENCE_SERVICE, {"tracks": [{"readyReplicas": 2, "replicas": 2}, {"replicas": 1}]}, "2/3"),
    ],
)
def test_replicas_are_counted_where_the_kind_counts_them(kind: Any, status: Json, count: str) -> None:
    assert row(stored(kind, {**status, "observedGeneration": 2, "conditions": [WAITS]})).count == count


def test_what_a_paused_object_said_before_is_not_repeated() -> None:
    paused = {"type": "Paused", "status": "True", "reason": "Paused", "message": "remove the annotation"}
    shown = row(stored(MCP, {"observedGeneration": 2, "conditions": [READY, paused]}))
    assert (shown.ready, shown.phase, shown.reason, shown.message) == (
        False,
        "Paused",
        "Paused",
        "remove the annotation",
    )


def test_an_object_that_is_being_deleted_says_so() -> None:
    status = {"observedGeneration": 2, "phase": "Ready", "conditions": [READY]}
    assert row(stored(MCP, status, deletionTimestamp="2026-11-16T06:00:00Z")).phase == "Deleting"


def test_an_object_without_pods_that_are_wanted_is_stopped() -> None:
    status = {"observedGeneration": 2, "conditions": [{**WAITS, "reason": "ScaledToZero"}]}
    assert row(stored(MCP, status)).phase == "Stopped"
