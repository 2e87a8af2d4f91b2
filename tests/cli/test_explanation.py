"""Why an object is not ready, by the facts alone."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.cluster.containers import failed
from modelyard.cluster.explanation import Cause, Facts, Log, Need, explain
from modelyard.core.objects import Stored
from modelyard.core.resources import DEPLOYMENT, EVENT, JOB, POD, VOLUME_CLAIM, Key, Resource
from modelyard.kinds.inferenceservice.api import RESOURCE as SERVICES
from modelyard.kinds.mcp.api import RESOURCE as MCPS
from modelyard.kinds.model.api import RESOURCE as MODELS

Json = dict[str, Any]


def stored(resource: Resource, name: str = "chat", **parts: Any) -> Stored:
    body = {"metadata": {"name": name, "namespace": "team", "generation": 1, **parts.pop("metadata", {})}, **parts}
    return Stored.from_dict(resource, body)


def owner(reason: str, *conditions: Json, truth: str = "False", resource: Resource = SERVICES) -> Stored:
    ready = {"type": "Ready", "status": truth, "reason": reason, "message": "as the operator says"}
    return stored(resource, spec={}, status={"observedGeneration": 1, "conditions": [ready, *conditions]})


def pod(*statuses: Json, **status: Any) -> Stored:
    return stored(POD, "chat-0", spec={}, status={"phase": "Running", "containerStatuses": list(statuses), **status})


def container(**fields: Any) -> Json:
    return {"name": "server", "ready": False, "restartCount": 0, **fields}


CRASHED = container(
    restartCount=3, state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": {"exitCode": 1}}
)
UNSCHEDULED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient cpu.",
}


def test_an_object_that_is_ready_has_no_causes_and_is_asked_next() -> None:
    told = explain(Facts(owner("InferenceReady", truth="True"), pods=(pod(CRASHED),)))
    assert (told.causes, told.events, told.logs) == ((), (), ())
    assert told.next == ('modelyard ask inferenceservice/chat -n team "Which model are you?"',)


@pytest.mark.parametrize(
    ("reason", "command"),
    [
        ("WaitingForGPU", "modelyard queue"),
        ("SecretNotFound", "kubectl get secrets -n team"),
        ("InvalidSpec", "kubectl edit inferenceservices.inference.llmkube.dev chat -n team"),
        ("CrashLoop", "kubectl describe inferenceservices.inference.llmkube.dev chat -n team"),
        ("ManuallyScaledToZero", "kubectl edit inferenceservices.inference.llmkube.dev chat -n team"),
        ("AddressNotAllowed", "kubectl describe inferenceservices.inference.llmkube.dev chat -n team"),
        (
            "Starting",
            "kubectl wait --for=condition=Ready inferenceservices.inference.llmkube.dev chat -n team --timeout=30m",
        ),
    ],
)
def test_the_first_command_follows_from_the_reason(reason: str, command: str) -> None:
    assert explain(Facts(owner(reason))).next[0] == command


def test_an_object_that_no_operator_has_seen_leads_to_the_doctor() -> None:
    assert explain(Facts(stored(MCPS, spec={}))).next[0] == "modelyard doctor"


def test_a_paused_object_leads_to_its_annotation() -> None:
    paused = {"type": "Paused", "status": "True", "reason": "Paused", "message": "paused"}
    told = explain(Facts(owner("Ready", paused, truth="True")))
    assert told.next[0] == "kubectl annotate inferenceservices.inference.llmkube.dev chat -n team modelyard.dev/paused-"


def test_a_problem_of_another_condition_is_a_cause_and_that_of_ready_is_not_repeated() -> None:
    applied = {"type": "Applied", "status": "False", "reason": "FieldContested", "message": "another client"}
    same = {"type": "Available", "status": "False", "reason": "CrashLoop", "message": "as the operator says"}
    told = explain(Facts(owner("CrashLoop", applied, same)))
    assert told.causes == (Cause("condition Applied", "FieldContested", "another client"),)


def test_an_object_that_it_needs_is_a_cause_and_leads_there() -> None:
    missing = Need(MODELS, Key("team", "gone"), None)
    failed = Need(MODELS, Key("team", "tiny"), owner("ModelSourceNotFound", resource=MODELS))
    fine = Need(MODELS, Key("team", "fine"), owner("WorkloadResolved", truth="True", resource=MODELS))
    told = explain(Facts(owner("WaitingForModel"), needs=(missing, failed, fine)))
    assert told.causes == (
        Cause("Model gone", "NotFound", "it does not exist"),
        Cause("Model tiny", "ModelSourceNotFound", "as the operator says"),
    )
    assert told.next[:2] == ("modelyard get model -n team", "modelyard explain model/tiny -n team")


def test_a_container_that_keeps_exiting_is_a_cause_and_its_log_is_next() -> None:
    log = Log("chat-0", "server", ("no such file",))
    told = explain(Facts(owner("CrashLoop"), pods=(pod(CRASHED),), logs=(log,)))
    assert [(cause.about, cause.reason) for cause in told.causes] == [("Pod chat-0", "CrashLoop")]
    assert told.next[0] == "kubectl logs --previous -c server chat-0 -n team"
    assert told.logs == (log,)


def test_the_log_of_a_run_that_has_just_ended_is_not_lost_with_the_next_start() -> None:
    just_ended = container(restartCount=3, state={"terminated": {"exitCode": 1}})
    told = explain(Facts(owner("CrashLoop"), pods=(pod(just_ended),)))
    assert told.next[0] == "kubectl logs --previous -c server chat-0 -n team"


def test_a_pod_that_no_node_can_run_is_described_next() -> None:
    told = explain(Facts(owner("Unschedulable"), pods=(pod(phase="Pending", conditions=[UNSCHEDULED]),)))
    assert told.causes[0].message.startswith("no node can run a pod: Insufficient cpu")
    assert told.next[0] == "kubectl describe pod chat-0 -n team"


def test_a_pod_without_a_problem_says_what_it_does() -> None:
    starting = pod(
        container(state={"running": {}}), container(name="side", state={"waiting": {"reason": "PodInitializing"}})
    )
    told = explain(Facts(owner("Starting"), pods=(starting,)))
    said = "container server is running, container side is waiting (PodInitializing)"
    assert told.causes == (Cause("Pod chat-0", "Running", said),)


def test_pods_that_go_or_are_ready_are_no_causes() -> None:
    ready = stored(POD, "chat-1", spec={}, status={"conditions": [{"type": "Ready", "status": "True"}]})
    going = stored(POD, "chat-2", spec={}, metadata={"deletionTimestamp": "2026-11-16T06:00:00Z"}, status={})
    assert explain(Facts(owner("Starting"), pods=(ready, going))).causes == ()


def failing(kind: str, reason: str, message: str) -> Json:
    return {"conditions": [{"type": kind, "status": "True", "reason": reason, "message": message}]}


@pytest.mark.parametrize(
    ("child", "cause"),
    [
        (
            stored(DEPLOYMENT, status=failing("ReplicaFailure", "FailedCreate", "quota")),
            Cause("Deployment chat", "FailedCreate", "quota"),
        ),
        (
            stored(JOB, status=failing("Failed", "BackoffLimitExceeded", "3 tries")),
            Cause("Job chat", "BackoffLimitExceeded", "3 tries"),
        ),
        (
            stored(VOLUME_CLAIM, status={"phase": "Pending"}),
            Cause("PersistentVolumeClaim chat", "Pending", "the claim is not bound to a volume"),
        ),
    ],
)
def test_a_child_that_fails_is_a_cause(child: Stored, cause: Cause) -> None:
    assert explain(Facts(owner("Creating"), children=(child,))).causes == (cause,)


def event(kind: str, name: str, at: str, **parts: Any) -> Stored:
    body = {"regarding": {"kind": kind, "name": name}, "reason": "Failed", "note": "no", "eventTime": at, **parts}
    return stored(EVENT, f"{name}.{at}", **body)


def test_events_of_the_object_its_children_and_pods_are_told_and_the_newest_is_last() -> None:
    events = (
        event("Pod", "chat-0", "2026-11-16T06:03:00Z", series={"count": 7, "lastObservedTime": "2026-11-16T06:09:00Z"}),
        event("ReplicaSet", "chat-5d9", "2026-11-16T06:02:00Z"),
        event("Pod", "other-0", "2026-11-16T06:01:00Z"),
        event("InferenceService", "chat", "2026-11-16T06:00:00Z"),
    )
    told = explain(Facts(owner("Creating"), children=(stored(DEPLOYMENT),), pods=(pod(CRASHED),), events=events))
    assert [(each.about, each.count) for each in told.events] == [
        ("InferenceService chat", 1),
        ("ReplicaSet chat-5d9", 1),
        ("Pod chat-0", 7),
    ]


def test_what_a_server_says_cannot_reach_the_terminal() -> None:
    bad = {"type": "Applied", "status": "False", "reason": "FieldContested", "message": "red \x1b[31m"}
    assert "\x1b" not in explain(Facts(owner("Creating", bad))).causes[0].message


def test_containers_that_ended_badly_are_those_whose_logs_are_read() -> None:
    ended = container(name="fetch", state={"terminated": {"exitCode": 12}})
    done = container(name="done", state={"terminated": {"exitCode": 0}})
    healed = container(name="healed", ready=True, lastState={"terminated": {"exitCode": 1}})
    found = [(each.name, each.was_started_again) for each in failed([pod(CRASHED, ended, done, healed)])]
    assert found == [("server", True), ("fetch", False)]
