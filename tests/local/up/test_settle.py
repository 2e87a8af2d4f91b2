"""What was ready before this start does not count as ready."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from modelyard.core.resources import POD
from modelyard.core.stored import Stored
from modelyard.local.up.settle import began_after

START = datetime(2026, 1, 1, 12, 0, 0, 700_000, tzinfo=UTC)


def pod(ready: str, *started: datetime) -> Stored:
    containers = [{"state": {"running": {"startedAt": when.strftime("%Y-%m-%dT%H:%M:%SZ")}}} for when in started]
    status = {"conditions": [{"type": "Ready", "status": ready}], "containerStatuses": containers}
    return Stored.from_dict(POD, {"metadata": {"name": "pod"}, "status": status})


def test_a_pod_is_of_this_start_when_all_its_containers_are() -> None:
    before, after = START - timedelta(seconds=2), START + timedelta(seconds=2)
    assert began_after(pod("True", after, after), START)
    assert not began_after(pod("True", after, before), START)


def test_times_of_kubernetes_have_whole_seconds() -> None:
    assert began_after(pod("True", START), START)


def test_a_pod_that_is_not_ready_misleads_nobody() -> None:
    assert began_after(pod("False", START - timedelta(days=1)), START)
    assert began_after(Stored.from_dict(POD, {"metadata": {"name": "new"}}), START)
