"""One row tells of an object what a person wants to know first."""

from __future__ import annotations

from typing import Any

from modelyard.core.objects import Stored
from modelyard.core.resources import Key
from modelyard.kinds.inferenceservice.api import RESOURCE as SERVICE
from modelyard.kinds.model.api import RESOURCE as MODEL
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


def test_models_come_before_what_serves_them() -> None:
    model = Stored.from_dict(MODEL, {"metadata": {"name": "zebra", "namespace": "default", "generation": 1}})
    assert [each.kind for each in rows([service(), model], PLACES)] == ["Model", "InferenceService"]
