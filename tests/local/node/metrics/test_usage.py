"""Usage is what was used between two readings, and never of another run."""

from __future__ import annotations

import pytest

from modelyard.local.node.metrics.usage import Reading, RunningContainer, Snapshot, Usage, measured

WEB = RunningContainer("uid-1", "web", started=100.0)
AGAIN = RunningContainer("uid-1", "web", started=998.0)


def of(at: float, container: RunningContainer, cpu: float) -> Snapshot:
    return Snapshot(Reading(at, 0.0), {container: Reading(at, cpu, 2048)})


def test_cpu_is_the_average_and_memory_the_last_reading() -> None:
    found = measured(Snapshot(Reading(990.0, 50.0), {}), Snapshot(Reading(1000.0, 65.0, 4096), {}))
    assert found.machine == Usage(1.5, 4096, 10.0)
    assert measured(of(990.0, WEB, 7.0), of(1000.0, WEB, 9.0)).pods == {"uid-1": {"web": Usage(0.2, 2048, 10.0)}}


def test_a_container_that_has_started_since_is_measured_from_its_start() -> None:
    assert measured(of(990.0, WEB, 500.0), of(1000.0, AGAIN, 1.0)).pods == {"uid-1": {"web": Usage(0.5, 2048, 2.0)}}


@pytest.mark.parametrize("cpu", [0.1, 500.0])
def test_a_container_of_this_moment_is_not_measured_yet(cpu: float) -> None:
    assert measured(of(990.0, WEB, 500.0), of(998.4, AGAIN, cpu)).pods == {}


def test_cpu_time_that_is_lost_with_a_child_is_not_negative() -> None:
    assert measured(of(990.0, WEB, 7.0), of(1000.0, WEB, 6.0)).pods["uid-1"]["web"].cpu == 0.0
