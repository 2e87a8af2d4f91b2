"""One row tells of an object what a person wants to know first."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.core.objects import Stored
from modelyard.core.resources import Key, Resource
from modelyard.kinds.agent.api import RESOURCE as AGENT
from modelyard.kinds.gateway.api import RESOURCE as GATEWAY
from modelyard.kinds.inferencemodel.api import RESOURCE as INFERENCE_MODEL
from modelyard.kinds.inferenceservice.api import RESOURCE as SERVICE
from modelyard.kinds.mcp.api import RESOURCE as MCP
from modelyard.kinds.model.api import RESOURCE as MODEL
from modelyard.kinds.modeldeployment.api import RESOURCE as MODEL_DEPLOYMENT
from modelyard.local.node.proxy.addresses import HostPort
from modelyard.local.up.rows import Row, row, rows

PLACES = {Key("default", "yard"): {8080: HostPort("127.96.1.2", 8080)}}
URL = "http://yard.default.svc.cluster.local:8080/v1/chat/completions"


def conditions(**given: tuple[str, str, str]) -> list[dict[str, str]]:
    return [
        {"type": kind, "status": status, "reason": reason, "message": message}
        for kind, (status, reason, message) in given.items()
    ]


def service(generation: int = 1, namespace: str = "default", **status: Any) -> Stored:
    meta = {"name": "yard", "namespace": namespace, "generation": generation}
    return Stored.from_dict(SERVICE, {"metadata": meta, "spec": {"replicas": 2}, "status": status})


def test_a_service_that_answers_is_shown_with_the_place_where_it_does() -> None:
    shown = row(
        service(
            phase="Ready",
            observedGeneration=1,
            readyReplicas=2,
            desiredReplicas=2,
            endpoint=URL,
            conditions=conditions(Ready=("True", "InferenceReady", "2 of 2 pods are ready")),
        ),
        PLACES,
    )
    assert shown == Row(
        kind="InferenceService",
        name="yard",
        phase="Ready",
        ready="2/2",
        reason="InferenceReady",
        url="http://127.96.1.2:8080/v1/chat/completions",
        is_current=True,
        is_ready=True,
        is_settled=True,
    )


def test_what_is_said_of_an_earlier_generation_does_not_count() -> None:
    ready = conditions(Ready=("True", "InferenceReady", ""))
    shown = row(service(generation=2, phase="Ready", observedGeneration=1, conditions=ready), PLACES)
    assert (shown.is_current, shown.is_ready, shown.is_settled) == (False, False, False)


def test_a_problem_that_stays_is_settled_and_has_its_message() -> None:
    told = conditions(
        Ready=("False", "CrashLoop", "it keeps exiting; read its log"),
        Progressing=("False", "CrashLoop", ""),
        Degraded=("True", "CrashLoop", ""),
    )
    shown = row(service(phase="Failed", observedGeneration=1, conditions=told), PLACES)
    assert (shown.is_ready, shown.is_settled, shown.note) == (False, True, "it keeps exiting; read its log")


def test_what_has_failed_is_settled_whatever_else_is_said_of_it() -> None:
    said = conditions(Ready=("False", "InternalError", "please report it"))
    assert row(service(phase="Failed", observedGeneration=1, conditions=said), PLACES).is_settled


def test_a_service_that_rests_because_it_was_asked_to_is_as_wanted() -> None:
    said = conditions(Ready=("False", "Stopped", "spec.replicas is 0"))
    shown = row(service(phase="Stopped", observedGeneration=1, conditions=said), PLACES)
    assert (shown.is_ready, shown.is_settled, shown.is_as_wanted) == (False, True, True)
    earlier = row(service(generation=2, phase="Stopped", observedGeneration=1, conditions=said), PLACES)
    assert (earlier.is_settled, earlier.is_as_wanted) == (False, False)


def test_a_download_is_shown_as_far_as_it_is() -> None:
    told = conditions(
        Ready=("False", "Creating", "0 of 2 pods are ready"), Progressing=("True", "Downloading", "42 % of 4 GiB")
    )
    shown = row(service(phase="Creating", observedGeneration=1, conditions=told), PLACES)
    assert (shown.note, shown.ready, shown.is_settled) == ("42 % of 4 GiB", "0/2", False)


def test_an_object_that_nobody_has_looked_at_yet_is_pending() -> None:
    shown = row(service(namespace="team"), PLACES)
    assert (shown.name, shown.phase, shown.ready, shown.is_settled) == ("team/yard", "Pending", "0/2", False)


def test_what_another_object_has_made_has_no_row_of_its_own() -> None:
    owner = {"apiVersion": SERVICE.api_version, "kind": SERVICE.kind, "name": "yard", "uid": "1", "controller": True}
    meta = {"name": "yard", "namespace": "default", "ownerReferences": [owner]}
    made = Stored.from_dict(INFERENCE_MODEL, {"metadata": meta, "spec": {"model": "org/yard"}})
    assert [each.kind for each in rows([made, service()], PLACES)] == ["InferenceService"]


@pytest.mark.parametrize("reason", ["WaitingForGPU", "InsufficientGPU", "WaitingForMetalAgent"])
def test_what_waits_for_hardware_that_one_machine_does_not_get_is_settled(reason: str) -> None:
    said = conditions(Ready=("False", reason, "no node has one"), Progressing=("True", reason, ""))
    shown = row(service(phase="Creating", observedGeneration=1, conditions=said), PLACES)
    assert (shown.is_settled, shown.is_as_wanted, shown.reason) == (True, False, reason)


@pytest.mark.parametrize(
    ("reason", "phase", "settled", "wanted"),
    [
        ("ImagePullFailed", "Pending", True, False),
        ("ScaledToZero", "Stopped", True, True),
        ("Starting", "Pending", False, False),
        ("WaitingForAnswer", "Pending", False, False),
        ("AddressNotAllowed", "Pending", True, False),
    ],
)
def test_of_an_mcp_the_condition_ready_alone_tells(reason: str, phase: str, settled: bool, wanted: bool) -> None:
    meta = {"name": "tools", "namespace": "default", "generation": 1}
    status = {"observedGeneration": 1, "conditions": conditions(Ready=("False", reason, "told"))}
    shown = row(Stored.from_dict(MCP, {"metadata": meta, "status": status}), {})
    assert (shown.phase, shown.is_settled, shown.is_as_wanted) == (phase, settled, wanted)


@pytest.mark.parametrize("degraded", ["True", "False"])
def test_a_service_is_settled_when_the_weights_that_it_waits_for_need_help(degraded: str) -> None:
    fetching = conditions(
        Ready=("False", "ModelSourceNotFound", "404"),
        Progressing=("True", "PrefetchRunning", ""),
        Degraded=(degraded, "PrefetchRunning", ""),
    )
    fetching[0]["reason"] = "ModelSourceNotFound" if degraded == "True" else "PrefetchRunning"
    meta = {"name": "yard", "namespace": "default", "generation": 1}
    status = {"phase": "Downloading", "observedGeneration": 1, "conditions": fetching}
    model = Stored.from_dict(MODEL, {"metadata": meta, "status": status})
    waits = conditions(Ready=("False", "WaitingForModel", "wait"), Progressing=("True", "WaitingForModel", ""))
    waiting = Stored.from_dict(
        SERVICE,
        {
            "metadata": meta,
            "spec": {"modelRef": "yard"},
            "status": {"phase": "Pending", "observedGeneration": 1, "conditions": waits},
        },
    )
    assert {each.is_settled for each in rows([model, waiting], PLACES)} == {degraded == "True"}


@pytest.mark.parametrize(
    ("gateway", "settled"), [("ImagePullFailed", True), ("Starting", False)], ids=["needs help", "is on its way"]
)
def test_what_waits_for_another_object_is_settled_when_that_one_is(gateway: str, settled: bool) -> None:
    def seen(resource: Resource, name: str, reason: str) -> Stored:
        meta = {"name": name, "namespace": "default", "generation": 1}
        status = {"observedGeneration": 1, "conditions": conditions(Ready=("False", reason, "see below"))}
        return Stored.from_dict(resource, {"metadata": meta, "status": status})

    waiting = seen(AGENT, "notes", "ReferenceNotReady")
    shown = rows([seen(GATEWAY, "edge", gateway), waiting], PLACES)
    assert [each.is_settled for each in shown] == [settled, settled]


def test_models_come_before_what_serves_them() -> None:
    model = Stored.from_dict(MODEL, {"metadata": {"name": "zebra", "namespace": "default", "generation": 1}})
    assert [each.kind for each in rows([service(), model], PLACES)] == ["Model", "InferenceService"]


def test_a_deployment_that_is_scaled_to_zero_rests_as_wanted() -> None:
    said = [{"type": "Ready", "status": "False", "reason": "ScaledToZero", "message": "scaled to zero"}]
    body = {
        "metadata": {"name": "chat", "namespace": "default", "generation": 1},
        "spec": {"replicas": 0},
        "status": {"phase": "Pending", "readyPods": 0, "replicas": 0, "observedGeneration": 1, "conditions": said},
    }
    shown = row(Stored.from_dict(MODEL_DEPLOYMENT, body), PLACES)
    assert (shown.ready, shown.is_settled, shown.is_as_wanted) == ("0/0", True, True)


def test_a_deployment_shows_its_pods_and_its_endpoint() -> None:
    said = [{"type": "Ready", "status": "True", "reason": "PodsReady"}]
    body = {
        "metadata": {"name": "chat", "namespace": "default", "generation": 1},
        "spec": {"replicas": 2},
        "status": {
            "phase": "Running",
            "readyPods": 2,
            "replicas": 2,
            "endpoint": "http://yard.default.svc.cluster.local:8080",
            "observedGeneration": 1,
            "conditions": said,
        },
    }
    shown = row(Stored.from_dict(MODEL_DEPLOYMENT, body), PLACES)
    assert (shown.phase, shown.ready, shown.is_ready) == ("Running", "2/2", True)
