"""What the overview says of an object: its state, its phase, and how far it is."""

from __future__ import annotations

import pytest

from modelyard.page.rows import Progress, Row, State, row
from tests.page.objects import condition, not_ready, ready, stored


def test_a_service_that_is_ready_shows_its_phase_and_its_pods() -> None:
    status = {**ready(), "phase": "Ready", "readyReplicas": 1, "desiredReplicas": 2}
    shown = row(stored("InferenceService", "chat", status=status), ("Model/default/yard",), can_answer=True)
    assert shown == Row(
        id="InferenceService/default/chat",
        kind="InferenceService",
        namespace="default",
        name="chat",
        state=State.READY,
        phase="Ready",
        reason="Ready",
        ready="1/2",
        since="2026-11-16T10:00:00Z",
        uses=("Model/default/yard",),
        answers=True,
    )


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (not_ready("Creating"), State.WORKING),
        (not_ready("CrashLoop"), State.ATTENTION),
        (not_ready("Creating", phase="Failed"), State.ATTENTION),
        (not_ready("AddressNotAllowed", phase="NotReady"), State.ATTENTION),
        (not_ready("ScaledToZero"), State.RESTING),
        (not_ready("Cordoned", phase="Cordoned"), State.RESTING),
        (not_ready("Decommissioned", phase="Decommissioned"), State.RESTING),
        ({}, State.WORKING),
        ({**ready(), "observedGeneration": 0}, State.WORKING),
        ({"conditions": [condition("Ready", "True", "Ready"), condition("Paused", "True", "Paused")]}, State.RESTING),
        (
            {"conditions": [condition("Ready", "False", "Creating"), condition("Degraded", "True", "CrashLoop")]},
            State.ATTENTION,
        ),
    ],
)
def test_the_state_of_an_object_follows_its_conditions(status: dict[str, object], expected: State) -> None:
    assert row(stored("InferenceService", "chat", status=status)).state is expected


def test_an_object_that_is_being_deleted_is_on_its_way_whatever_its_conditions_say() -> None:
    shown = row(stored("MCP", "tools", status=ready(), deletionTimestamp="2026-11-16T10:00:00Z"))
    assert (shown.state, shown.phase) == (State.WORKING, "Deleting")


def test_a_kind_without_phases_gets_one_word() -> None:
    states = (ready(), not_ready("NoAnswer"), not_ready("Starting"), not_ready("ScaledToZero"))
    assert [row(stored("MCP", "tools", status=each)).phase for each in states] == [
        "Ready",
        "Failed",
        "Pending",
        "Stopped",
    ]


def test_a_download_shows_its_bytes_and_the_time_left() -> None:
    told = {"bytes": 5, "totalBytes": 10, "bytesPerSecond": 1, "secondsLeft": 5, "text": "5 B of 10 B"}
    shown = row(stored("ModelDeployment", "phi", status={**not_ready("Downloading"), "download": told}))
    assert shown.progress == Progress("5 B of 10 B", 5, 10, 1, 5)


def test_a_download_that_is_known_only_in_words_shows_them() -> None:
    waits = [
        condition("Ready", "False", "Downloading"),
        condition("Progressing", "True", "Downloading", "40 % of 1 GB"),
    ]
    assert row(stored("InferenceService", "chat", status={"conditions": waits})).progress == Progress("40 % of 1 GB")


def test_a_service_with_one_pod_of_two_can_be_asked_already() -> None:
    conditions = [condition("Ready", "False", "NoReadyReplicas"), condition("Available", "True", "PodsReady")]
    item = stored("InferenceService", "chat", status={"conditions": conditions})
    assert row(item, can_answer=True).answers
    assert not row(item).answers


def test_what_an_earlier_generation_was_told_is_not_repeated() -> None:
    status = {**ready(), "observedGeneration": 0, "readyReplicas": 1, "desiredReplicas": 1}
    shown = row(stored("InferenceService", "chat", status=status))
    assert (shown.state, shown.reason, shown.since) == (State.WORKING, "NotObserved", "")


def test_pods_of_both_tracks_of_a_canary_are_counted() -> None:
    tracks = [{"readyReplicas": 1, "replicas": 2}, {"readyReplicas": 1, "replicas": 1}]
    assert row(stored("ZerfooInferenceService", "chat", status={**ready(), "tracks": tracks})).ready == "2/3"
