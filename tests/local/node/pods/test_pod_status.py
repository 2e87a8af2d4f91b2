"""The status of a pod, from what its containers do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from modelyard.local.node.pods.pod_status import PodFacts, changed, phase, pod_status
from modelyard.local.node.podspec import Container, PodSpec
from modelyard.local.node.process.container_state import (
    CREATING,
    ContainerStatus,
    Running,
    State,
    Terminated,
    Waiting,
    exit_code,
)

NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:01:00Z"
DONE = Terminated(0, "Completed", NOW, NOW)
FAILED = Terminated(1, "Error", NOW, NOW)
RUNS = Running(NOW)
CRASHED = Waiting("CrashLoopBackOff")


def _facts(*states: State, policy: str = "Always", inits: tuple[State, ...] = (), **more: Any) -> PodFacts:
    spec = PodSpec(
        containers=tuple(Container(f"c{n}") for n, _ in enumerate(states)),
        init_containers=tuple(Container(f"i{n}") for n, _ in enumerate(inits)),
        restart_policy=policy,  # type: ignore[arg-type] # the cases name real policies only
    )
    return PodFacts(
        "uid",
        spec,
        "240.97.0.1",
        NOW,
        tuple(ContainerStatus(f"i{n}", "image", each) for n, each in enumerate(inits)),
        tuple(_view(n, each) for n, each in enumerate(states)),
        **more,
    )


def test_containers_for_debugging_say_that_they_do_not_start() -> None:
    facts = _facts(RUNS)
    spec = msgspec.structs.replace(facts.spec, ephemeral_containers=(Container("debugger", "busybox"),))
    (shown,) = pod_status(msgspec.structs.replace(facts, spec=spec), {}, NOW)["ephemeralContainerStatuses"]
    assert (shown["name"], shown["image"]) == ("debugger", "busybox")
    assert shown["state"]["waiting"]["message"] == "one machine has no debug containers; use `kubectl exec`"


def _view(number: int, state: State) -> ContainerStatus:
    last = FAILED if state == CRASHED else None
    return ContainerStatus(f"c{number}", "image", state, last, started=state == RUNS, ready=state == RUNS)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (_facts(CREATING), "Pending"),
        (_facts(RUNS), "Running"),
        (_facts(RUNS, CREATING), "Pending"),
        (_facts(CRASHED), "Running"),
        (_facts(DONE), "Running"),
        (_facts(DONE, policy="OnFailure"), "Succeeded"),
        (_facts(FAILED, DONE, policy="OnFailure"), "Running"),
        (_facts(DONE, policy="Never"), "Succeeded"),
        (_facts(DONE, RUNS, policy="Never"), "Running"),
        (_facts(DONE, FAILED, policy="Never"), "Failed"),
        (_facts(FAILED, stopping=True), "Failed"),
        (_facts(CREATING, inits=(RUNS,)), "Pending"),
        (_facts(CREATING, inits=(FAILED,)), "Pending"),
        (_facts(CREATING, inits=(FAILED,), policy="Never"), "Failed"),
        (_facts(RUNS, inits=(DONE,)), "Running"),
    ],
)
def test_the_phase_sums_up_the_containers(facts: PodFacts, expected: str) -> None:
    assert phase(facts) == expected


def test_times_of_conditions_move_only_with_their_value() -> None:
    before = pod_status(_facts(RUNS), {}, NOW)
    same = pod_status(_facts(RUNS), before, LATER)
    assert changed(same, before) == {}
    other = pod_status(_facts(CRASHED), before, LATER)
    moved = {entry["type"]: entry["lastTransitionTime"] for entry in other["conditions"]}
    assert moved == {"PodReadyToStartContainers": NOW, "Initialized": NOW, "Ready": LATER, "ContainersReady": LATER}


def test_nulls_that_the_server_adds_are_no_difference() -> None:
    status = pod_status(_facts(RUNS), {}, NOW)
    theirs = {"type": "PodScheduled", "status": "True"}
    stored = {**status, "conditions": [{**entry, "lastProbeTime": None} for entry in [*status["conditions"], theirs]]}
    assert changed(pod_status(_facts(RUNS), stored, LATER), stored) == {}


def test_conditions_of_others_are_kept() -> None:
    theirs = {"type": "PodScheduled", "status": "True"}
    assert theirs in pod_status(_facts(RUNS), {"conditions": [theirs]}, NOW)["conditions"]


def test_a_pod_that_is_over_is_not_ready_and_says_why() -> None:
    conditions = pod_status(_facts(DONE, policy="Never"), {}, NOW)["conditions"]
    ready = next(entry for entry in conditions if entry["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")


def test_an_init_container_that_runs_is_not_ready_and_the_pod_is_not_initialized() -> None:
    facts = msgspec.structs.replace(
        _facts(CREATING, inits=(RUNS,)), inits=(ContainerStatus("i0", "image", RUNS, started=True, ready=True),)
    )
    status = pod_status(facts, {}, NOW)
    initialized = next(entry for entry in status["conditions"] if entry["type"] == "Initialized")
    assert (initialized["status"], initialized["reason"]) == ("False", "ContainersNotInitialized")
    assert initialized["message"] == "containers with incomplete status: [i0]"
    assert [entry["ready"] for entry in status["initContainerStatuses"]] == [False]


def test_a_pod_is_as_ready_as_its_sidecars() -> None:
    facts = _facts(RUNS, inits=(RUNS,))
    spec = msgspec.structs.replace(facts.spec, init_containers=(Container("i0", restart_policy="Always"),))
    sidecar = ContainerStatus("i0", "image", RUNS, started=True, unready_because="the readiness probe failed: HTTP 503")
    status = pod_status(msgspec.structs.replace(facts, spec=spec, inits=(sidecar,)), {}, NOW)
    ready = next(entry for entry in status["conditions"] if entry["type"] == "Ready")
    assert (ready["status"], ready["message"]) == (
        "False",
        "containers with unready status: [i0]; the readiness probe failed: HTTP 503",
    )


def test_a_signal_is_shown_as_a_shell_would() -> None:
    assert (exit_code(-9), exit_code(-15), exit_code(3)) == (137, 143, 3)
