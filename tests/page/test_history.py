"""What the page remembers of conditions and pods while it runs."""

from __future__ import annotations

from datetime import UTC, datetime

from modelyard.page.history import ConditionHistory, LoadMoments, Turn
from tests.page.objects import not_ready, pod, ready, stored

NOW = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)


def test_conditions_are_remembered_in_the_order_in_which_they_turned() -> None:
    history = ConditionHistory()
    for status in (not_ready("Creating"), not_ready("Creating"), not_ready("CrashLoop", "it ended"), ready()):
        history.observe(stored("InferenceService", "chat", status=status), NOW)
    assert history.of("InferenceService-chat") == (
        Turn("2026-11-16T10:00:00Z", "Ready", "False", "Creating"),
        Turn("2026-11-16T12:00:00Z", "Ready", "False", "CrashLoop", "it ended"),
        Turn("2026-11-16T12:00:00Z", "Ready", "True", "Ready"),
    )


def test_an_object_that_flaps_for_ever_takes_no_more_memory() -> None:
    history = ConditionHistory()
    for _ in range(200):
        history.observe(stored("MCP", "tools", status=ready()), NOW)
        history.observe(stored("MCP", "tools", status=not_ready("NoAnswer")), NOW)
    assert len(history.of("MCP-tools")) == 64


def test_nothing_is_left_of_an_object_that_is_gone() -> None:
    history = ConditionHistory()
    history.observe(stored("MCP", "tools", status=ready()), NOW)
    history.forget("MCP-tools")
    assert history.of("MCP-tools") == ()


def test_the_moment_of_a_startup_probe_is_known_only_if_it_was_seen() -> None:
    loads, loading, loaded = LoadMoments(), {"started": False}, {"started": True}
    for name, states in {"seen": [loading, loaded, loaded], "missed": [loaded], "waits": [loading]}.items():
        for state in states:
            loads.observe(pod(name, {"containerStatuses": [state]}), NOW)
    assert [loads.of(name) for name in ("seen", "missed", "waits")] == [NOW, None, None]
    loads.forget("seen")
    assert loads.of("seen") is None
