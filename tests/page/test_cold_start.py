"""How the time of a cold start is divided."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

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


def test_a_pod_that_is_ready_shows_all_stages_with_their_seconds() -> None:
    status = {
        "conditions": turned(PodScheduled=2, ContainersReady=30, Ready=31),
        "initContainerStatuses": [fetched(5, 15)],
        "containerStatuses": [running(18, restarts=1)],
    }
    start = cold_start(pod("chat-1", status, **LABELS), when(59))
    assert start.spans == (
        Span(SCHEDULING, 2),
        Span(PULLING, 3),
        Span(FETCHING, 10),
        Span(PULLING, 3),
        Span(LOADING, 12),
        Span(BECOMING_READY, 1),
    )
    assert (start.seconds, start.owner, start.is_ready, start.restarts) == (31, "inferenceservice/chat", True, 1)


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
    status = {"conditions": turned(PodScheduled=2), "containerStatuses": [crashed, running(10)]}
    spans = cold_start(pod("chat-1", status, **LABELS), when(40)).spans
    assert spans == (Span(SCHEDULING, 2), Span(PULLING, 18), Span(LOADING, 20, is_over=False))


def test_times_that_make_no_sense_end_the_bar_and_nothing_else() -> None:
    start = cold_start(pod("chat-1", {"conditions": turned(PodScheduled=1)}, created="yesterday"), when(9))
    assert start.spans == ()
