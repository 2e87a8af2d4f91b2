"""How the time of a cold start is divided."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from modelyard.core.objects import Stored
from modelyard.core.resources import POD
from modelyard.page.cold_start import (
    BECOMING_READY,
    FETCHING,
    LOADING,
    PULLING,
    SCHEDULING,
    Span,
    cold_start,
)
from tests.page.objects import condition, pod

Json = dict[str, Any]
LABELS = {"modelyard.dev/kind": "inferenceservice", "app.kubernetes.io/instance": "chat"}


def at(second: int) -> str:
    return f"2026-11-16T10:00:{second:02d}Z"


def when(second: int) -> datetime:
    return datetime(2026, 11, 16, 10, 0, second, tzinfo=UTC)


def turned(**seconds: int) -> list[Json]:
    return [condition(kind, "True", "", since=at(second)) for kind, second in seconds.items()]


def fetched(began: int, ended: int, code: int = 0) -> Json:
    over = {"startedAt": at(began), "finishedAt": at(ended), "exitCode": code}
    return {"name": "model-downloader", "state": {"terminated": over}}


def running(since: int, restarts: int = 0) -> Json:
    return {"name": "server", "restartCount": restarts, "state": {"running": {"startedAt": at(since)}}}


def gated(name: str, status: Json) -> Stored:
    """A pod that gets ready after its containers."""
    meta = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": at(0), "labels": LABELS}
    return Stored.from_dict(POD, {"metadata": meta, "spec": {"readinessGates": [{}]}, "status": status})


def test_a_pod_that_is_ready_shows_all_stages_with_their_seconds() -> None:
    status = {
        "conditions": turned(PodScheduled=2, ContainersReady=30, Ready=31),
        "initContainerStatuses": [fetched(5, 15)],
        "containerStatuses": [running(18)],
    }
    start = cold_start(gated("chat-1", status), when(59))
    assert start.spans == (
        Span(SCHEDULING, 2),
        Span(PULLING, 3),
        Span(FETCHING, 10),
        Span(PULLING, 3),
        Span(LOADING, 12),
        Span(BECOMING_READY, 1),
    )
    assert (start.seconds, start.owner, start.is_ready, start.restarts) == (31, "inferenceservice/chat", True, 0)


def test_the_moment_of_a_startup_probe_divides_loading_from_becoming_ready() -> None:
    status = {
        "conditions": turned(PodScheduled=0, ContainersReady=30, Ready=30),
        "containerStatuses": [running(10)],
    }
    start = cold_start(pod("chat-1", status), when(59), loaded=when(24))
    assert start.spans == (Span(PULLING, 10), Span(LOADING, 14), Span(BECOMING_READY, 6))


def test_a_pod_without_a_node_waits_for_it_and_nothing_else() -> None:
    status = {"conditions": [condition("PodScheduled", "False", "Unschedulable")]}
    assert cold_start(pod("chat-1", status), when(40)).spans == (Span(SCHEDULING, 40, is_over=False),)


def test_a_pod_that_fetches_shows_how_long_it_does() -> None:
    fetching = {"name": "model-downloader", "state": {"running": {"startedAt": at(5)}}}
    status = {"conditions": turned(PodScheduled=1), "initContainerStatuses": [fetching], "containerStatuses": []}
    assert cold_start(pod("chat-1", status), when(50)).spans == (
        Span(SCHEDULING, 1),
        Span(PULLING, 4),
        Span(FETCHING, 45, is_over=False),
    )


def test_a_download_that_is_tried_again_has_not_pulled_all_the_time() -> None:
    last = {"terminated": {"startedAt": at(30), "finishedAt": at(31), "exitCode": 17}}
    again = {"name": "model-downloader", "restartCount": 3, "state": {"waiting": {}}, "lastState": last}
    status = {"conditions": turned(PodScheduled=2), "initContainerStatuses": [again]}
    assert cold_start(pod("chat-1", status), when(40)).spans == (
        Span(SCHEDULING, 2),
        Span(FETCHING, 38, is_over=False),
    )


def test_a_download_that_failed_is_not_over() -> None:
    status = {"conditions": turned(PodScheduled=0), "initContainerStatuses": [fetched(1, 4, code=3)]}
    assert cold_start(pod("chat-1", status), when(9)).spans[-1] == Span(FETCHING, 8, is_over=False)


def test_a_container_that_waits_to_be_started_again_has_been_pulled() -> None:
    crashed = {
        "name": "server",
        "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"startedAt": at(20), "finishedAt": at(21), "exitCode": 1}},
    }
    status = {"conditions": turned(PodScheduled=2, Initialized=3), "containerStatuses": [crashed, running(10)]}
    start = cold_start(pod("chat-1", status, **LABELS), when(40))
    assert start.spans == (Span(SCHEDULING, 2), Span(PULLING, 8), Span(LOADING, 30, is_over=False))
    assert start.restarts == 4


def test_a_node_that_was_lost_for_a_while_is_no_part_of_the_start() -> None:
    status = {"conditions": turned(PodScheduled=0, ContainersReady=9, Ready=50), "containerStatuses": [running(4)]}
    assert cold_start(pod("chat-1", status), when(59)).spans == (Span(PULLING, 4), Span(LOADING, 5))


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (17, "Failed")])
def test_a_pod_that_only_fetches_has_no_other_stages_and_ends(code: int, phase: str) -> None:
    status = {"phase": phase, "conditions": turned(PodScheduled=1), "containerStatuses": [fetched(3, 20, code)]}
    spans = cold_start(pod("chat-download", status), when(59)).spans
    assert spans == (Span(SCHEDULING, 1), Span(PULLING, 2), Span(FETCHING, 17))


def test_times_that_make_no_sense_end_the_bar_and_nothing_else() -> None:
    start = cold_start(pod("chat-1", {"conditions": turned(PodScheduled=1)}, created="yesterday"), when(9))
    assert start.spans == ()
