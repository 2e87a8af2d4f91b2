"""What one object shows: the cause and the next step first, then its parts."""

from __future__ import annotations

from typing import Any

import yaml

from modelyard.core.objects import Stored
from modelyard.core.resources import DEPLOYMENT, EVENT, JOB, SERVICE, VOLUME_CLAIM
from modelyard.page.cold_start import ColdStart
from modelyard.page.detail import Child, Container, EventView, Why, child, event_view, explain, manifest, pod_view
from modelyard.page.rows import row
from tests.page.objects import condition, not_ready, pod, ready, stored

Json = dict[str, Any]

CHAT = "InferenceService/default/chat"
YARD = "Model/default/yard"


def made(resource: Any, spec: Json | None = None, status: Json | None = None) -> Stored:
    return Stored.from_dict(resource, {"metadata": {"name": "chat"}, "spec": spec or {}, "status": status or {}})


def test_the_cause_comes_first_and_its_remedy_is_the_next_step() -> None:
    message = "the source answers 404; the repository may be private; correct spec.source"
    shown = row(stored("Model", "yard", status=not_ready("ModelSourceNotFound", message)))
    assert explain(shown, {}) == Why(
        "It does not get ready by itself.",
        "the source answers 404; the repository may be private",
        "correct spec.source",
    )


def test_an_object_that_waits_for_another_names_it_whether_it_is_missing_or_not_ready() -> None:
    shown = row(
        stored("InferenceService", "chat", status=not_ready("WaitingForModel", "the Model is not ready")), (YARD,)
    )
    expected = Why("It is on its way.", "the Model is not ready", "look at what it waits for", (YARD,))
    assert explain(shown, {}) == expected
    assert explain(shown, {YARD: row(stored("Model", "yard", status=not_ready("Downloading")))}) == expected
    assert explain(shown, {YARD: row(stored("Model", "yard", status=ready()))}).waits_for == ()
    assert explain(shown, {}, unseen=(YARD,)).waits_for == ()


def test_an_object_that_is_ready_needs_nothing() -> None:
    assert explain(row(stored("Model", "yard", status=ready())), {}) == Why("It is ready.")


def test_children_say_how_they_are() -> None:
    assert [
        child(made(DEPLOYMENT, {"replicas": 2}, {"readyReplicas": 1})),
        child(made(SERVICE, {"clusterIP": "10.0.0.7", "ports": [{"port": 80}]})),
        child(made(JOB, status={"conditions": [condition("Failed", "True", "BackoffLimitExceeded")]})),
        child(made(VOLUME_CLAIM, status={"phase": "Bound", "capacity": {"storage": "1Gi"}})),
    ] == [
        Child("Deployment", "chat", "1/2 ready", is_well=False),
        Child("Service", "chat", "ClusterIP 10.0.0.7:80", is_well=True),
        Child("Job", "chat", "failed", is_well=False),
        Child("PersistentVolumeClaim", "chat", "Bound 1Gi", is_well=True),
    ]


def test_a_pod_shows_its_containers_and_why_it_waits() -> None:
    start = ColdStart("chat-1", "default", "", "", (), is_ready=False)
    waiting = {
        "name": "server",
        "restartCount": 3,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "no such"}},
    }
    shown = pod_view(pod("chat-1", {"phase": "Pending", "containerStatuses": [waiting]}), start)
    assert shown.containers == (Container("server", "waiting: ErrImagePull", 3),)
    assert (shown.phase, shown.is_ready, shown.needs_help, shown.message) == ("ErrImagePull", False, True, "no such")


def test_a_pod_that_is_only_being_created_needs_no_help() -> None:
    start = ColdStart("chat-1", "default", "", "", (), is_ready=False)
    waiting = {"name": "server", "state": {"waiting": {"reason": "ContainerCreating"}}}
    shown = pod_view(pod("chat-1", {"phase": "Pending", "containerStatuses": [waiting]}), start)
    assert (shown.phase, shown.needs_help) == ("ContainerCreating", False)
    assert pod_view(pod("chat-2", {"phase": "Failed"}), start).needs_help


def test_a_pod_without_a_node_repeats_the_words_of_the_scheduler() -> None:
    start = ColdStart("chat-1", "default", "", "", (), is_ready=False)
    unscheduled = {"conditions": [condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")]}
    assert pod_view(pod("chat-1", unscheduled), start).message == "0/1 nodes are available"


def test_an_event_of_a_series_counts_how_often_it_was_seen() -> None:
    body = {
        "metadata": {"name": "chat.1"},
        "regarding": {"kind": "Pod", "name": "chat-1"},
        "reason": "BackOff",
        "note": "restarting",
        "type": "Warning",
        "series": {"count": 7, "lastObservedTime": "2026-11-16T10:00:00.000000Z"},
    }
    assert event_view(Stored.from_dict(EVENT, body)) == EventView(
        "2026-11-16T10:00:00.000000Z", "Pod chat-1", "BackOff", "restarting", is_warning=True, count=7
    )


def test_the_manifest_is_yaml_that_can_be_applied_again() -> None:
    item = stored("Model", "yard", {"source": "hf://org/repo"})
    shown = yaml.safe_load(manifest(item))
    assert (shown["kind"], shown["spec"]) == ("Model", {"source": "hf://org/repo"})
