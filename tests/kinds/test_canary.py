"""The order in which traffic moves: to a canary, away from it, and from one model to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.kinds.canaries import Stage, ago, child, situation, version

if TYPE_CHECKING:
    from tests.kinds.cases import Situation

Json = dict[str, Any]

LEFT = {"leavingSince": ago(11)}
ALL_OF_IT = [
    "ConfigMap/chat-router",
    "Deployment/chat-canary",
    "Deployment/chat-router",
    "Service/chat-canary",
    "Service/chat-router",
]


def weight(found: Situation) -> int:
    """Return the weight of the canary that the routers are told."""
    text = child(found.plan.apply, "ConfigMap", "chat-router")["data"]["routes.json"]
    return next(number for number in range(101) if version(number) in text)


def leads_to(found: Situation) -> str:
    selector: Json = child(found.plan.apply, "Service", "chat-svc")["spec"]["selector"]
    return str(selector["app"])


def deleted(found: Situation) -> list[str]:
    return sorted(f"{ref.resource.kind}/{ref.key.name}" for ref in found.plan.delete)


def reason(found: Situation, kind: str = "TrafficSplit") -> str:
    return str(next((entry["reason"] for entry in found.status["conditions"] if entry["type"] == kind), ""))


def shares(found: Situation) -> list[int]:
    """Return the shares of primary and canary that are in force, as the status tells them."""
    return [track["effectiveWeight"] for track in found.status["tracks"]]


def with_weight(number: int, **more: Any) -> Situation:
    """Return the situation of a canary that was given this weight."""
    canary = {"modelRef": "tiny-2", "weight": number}
    return situation(Stage(canary=canary, rollout={"weight": number}, **more))


@pytest.mark.parametrize("number", [0, 20, 100])
def test_what_is_in_force_is_what_the_routers_say_and_both_tracks_stay(number: int):
    found = with_weight(number, loaded=(number, number))
    assert (shares(found), reason(found), found.status["ready"]) == ([100 - number, number], "WeightsLoaded", True)
    assert child(found.plan.apply, "Deployment", "chat-primary")
    assert child(found.plan.apply, "Deployment", "chat-canary")


def test_while_one_of_two_routers_has_loaded_a_weight_the_share_lies_between():
    found = with_weight(60, loaded=(20, 60))
    assert (shares(found), reason(found), found.status["ready"]) == ([60, 40], "WaitingForRouters", False)
    assert leads_to(found) == "chat-router"


def test_one_router_of_two_is_enough_to_keep_the_service_there():
    found = with_weight(20, loaded=(20,))
    assert (leads_to(found), shares(found)) == ("chat-router", [80, 20])


def test_without_any_router_the_service_leads_to_the_primary():
    found = with_weight(20, loaded=())
    assert leads_to(found) == "chat-primary"


def test_a_canary_without_pods_is_called_so():
    found = with_weight(20, gone=frozenset({"canary"}), runtime="llamacpp", models=("tiny",))
    (split,) = (entry for entry in found.status["conditions"] if entry["type"] == "TrafficSplit")
    assert split["reason"] == "CanaryDegraded"
    assert "because the canary has no pods; see" in split["message"]


def test_requests_that_the_canary_answers_alone_are_answered():
    found = with_weight(100, loaded=(100, 100), ready={"primary": 0})
    assert (found.status["phase"], found.status["ready"]) == ("Progressing", False)
    found = with_weight(100, loaded=(100, 100), ready={"primary": 0}, runtime="llamacpp", models=("tiny-2",))
    assert (reason(found, "Ready"), found.status["phase"]) == ("ModelNotFound", "Degraded")


@pytest.mark.parametrize(("kind", "seconds"), [("Ready", 1.0), ("Applied", 60.0)])
def test_the_address_of_a_canary_is_waited_for_but_not_while_its_service_is_refused(kind: str, seconds: float):
    said = {"type": kind, "status": "False", "reason": "NameConflict"}
    stage = Stage(canary={"modelRef": "tiny-2", "weight": 20}, leads_to="primary", status={"conditions": [said]})
    found = situation(msgspec.structs.replace(stage, gone=frozenset({"canary", "router"})))
    assert found.plan.requeue_after
    assert found.plan.requeue_after.seconds == seconds


def test_a_canary_of_the_same_model_is_a_canary_all_the_same():
    found = situation(Stage(canary={"modelRef": "tiny", "weight": 20}, rollout={"weight": 20}))
    assert [track["model"] for track in found.status["tracks"]] == ["tiny", "tiny"]
    assert shares(found) == [80, 20]


def test_a_model_that_the_primary_lacks_does_not_keep_a_canary_from_giving_its_weight_back():
    found = with_weight(20, runtime="llamacpp", models=("tiny-2",), ready={"canary": 0})
    assert (found.plan.blocked, weight(found), leads_to(found), deleted(found)) == (None, 0, "chat-router", [])
    assert "chat-primary" not in [one.name for one in found.plan.apply]
    assert (reason(found), reason(found, "PrimaryReady"), found.status["phase"]) == (
        "CanaryDegraded",
        "ModelNotFound",
        "Degraded",
    )


def test_a_canary_that_goes_is_first_taken_from_the_routers():
    found = situation(Stage(rollout={"weight": 20}))
    assert (weight(found), leads_to(found), deleted(found)) == (0, "chat-router", [])
    assert found.status["rollout"] == {"leavingSince": ago(0)}
    assert reason(found) == "Stopping"


def test_until_it_has_gone_the_status_names_its_model():
    tracks = [{"name": "canary", "model": "tiny-2"}]
    found = situation(Stage(rollout={"weight": 20}, status={"tracks": tracks}))
    assert [track["model"] for track in found.status["tracks"]] == ["tiny", "tiny-2"]


def test_then_the_service_leads_to_the_primary_again():
    found = situation(Stage(loaded=(0, 0), rollout=LEFT))
    assert (weight(found), leads_to(found), deleted(found)) == (0, "chat-primary", [])


def test_not_before_every_router_has_loaded_it():
    found = situation(Stage(loaded=(0, 20), rollout=LEFT))
    assert (leads_to(found), deleted(found)) == ("chat-router", [])


def test_answers_under_way_keep_it():
    found = situation(Stage(loaded=(0, 0), leads_to="primary", rollout=LEFT, figures={"requests": 9, "active": 1}))
    assert (leads_to(found), deleted(found)) == ("chat-primary", [])
    assert found.plan.requeue_after


def test_without_any_the_canary_and_the_routers_are_removed_and_forgotten():
    found = situation(Stage(loaded=(0, 0), leads_to="primary", rollout=LEFT))
    assert (leads_to(found), deleted(found)) == ("chat-primary", ALL_OF_IT)
    assert found.status["rollout"] is None
    assert reason(found) == ""


def test_answers_without_end_do_not_keep_it_for_ever():
    stage = Stage(loaded=(0, 0), leads_to="primary", rollout={"leavingSince": ago(601)}, figures={"active": 1})
    assert deleted(situation(stage)) == ALL_OF_IT


def test_routers_that_never_answer_do_not_keep_it_for_ever():
    found = situation(Stage(loaded=(20, 20), rollout={"leavingSince": ago(601)}))
    assert (leads_to(found), deleted(found)) == ("chat-primary", [])


def test_it_is_kept_until_reports_are_younger_than_the_decision():
    found = situation(Stage(loaded=(0, 0), leads_to="primary", rollout={"leavingSince": ago(10)}))
    assert deleted(found) == []


def test_without_routers_it_is_removed_too():
    found = situation(Stage(leads_to="primary", rollout=LEFT, gone=frozenset({"router"})))
    assert deleted(found) == ["Deployment/chat-canary", "Service/chat-canary"]


def test_while_it_goes_it_is_not_ready_with_routers_or_without():
    found = situation(Stage(leads_to="primary", rollout={"weight": 20}, gone=frozenset({"router"})))
    assert (deleted(found), reason(found), found.status["ready"]) == ([], "Stopping", False)


def test_a_removal_that_was_cut_short_is_completed_and_creates_nothing_again():
    stage = Stage(leads_to="primary", rollout=LEFT, gone=frozenset({"router", "canary"}), remains=("router",))
    found = situation(stage)
    assert deleted(found) == ["Service/chat-router"]
    assert [one.name for one in found.plan.apply] == ["chat-primary", "chat-primary", "chat-svc"]


@pytest.mark.parametrize(
    "stage",
    [
        Stage(rollout={"weight": 100}, loaded=(100, 100), ready={"primary": 0}),
        Stage(rollout={"weight": 100}, loaded=(100, 100), model="tiny-2"),
    ],
    ids=["no pod of the primary is ready", "the primary has yet to take over the model"],
)
def test_traffic_stays_with_a_canary_until_the_primary_can_take_it(stage: Stage):
    found = situation(stage)
    assert (weight(found), leads_to(found), deleted(found)) == (100, "chat-router", [])
    assert found.status["rollout"] == {"weight": 100}


def test_while_a_canary_waits_for_the_primary_the_loss_of_all_routers_leads_to_it_and_their_return_back():
    stage = Stage(rollout={"weight": 100}, loaded=(), model="tiny-2")
    assert leads_to(situation(stage)) == "chat-primary"
    back = msgspec.structs.replace(stage, loaded=(100, 100), leads_to="primary")
    assert (leads_to(situation(back)), deleted(situation(back))) == ("chat-router", [])


def test_a_canary_that_comes_back_before_it_has_gone_gets_its_weight_again():
    found = situation(Stage(canary={"modelRef": "tiny-2", "weight": 60}, loaded=(0, 0), rollout=LEFT))
    assert (weight(found), leads_to(found), deleted(found)) == (60, "chat-router", [])
    assert "leavingSince" not in found.status["rollout"]


def test_until_routers_answer_a_new_operator_the_status_stands():
    status = {"rollout": {"weight": 20}, "tracks": [{"name": "canary", "effectiveWeight": 20}]}
    said = {"type": "TrafficSplit", "status": "True", "reason": "WeightsLoaded", "observedGeneration": 1}
    stage = Stage(canary={"modelRef": "tiny-2", "weight": 20}, unheard=True, status={**status, "conditions": [said]})
    found = situation(stage)
    assert (leads_to(found), reason(found), found.status["ready"]) == ("chat-router", "WeightsLoaded", True)
    older = {**said, "observedGeneration": 0}
    found = situation(msgspec.structs.replace(stage, status={**status, "conditions": [older]}))
    assert (leads_to(found), reason(found)) == ("chat-router", "WaitingForRouters")


def test_only_the_configuration_of_routers_follows_a_new_weight():
    one, other = (
        situation(Stage(canary={"modelRef": "tiny-2", "weight": number}, rollout={"weight": 20})) for number in (20, 60)
    )
    changed = [
        (before.resource.kind, before.name)
        for before, after in zip(one.plan.apply, other.plan.apply, strict=True)
        if before != after
    ]
    assert changed == [("ConfigMap", "chat-router")]


ACCEPTED = {
    "parents": [
        {
            "parentRef": {"name": "public"},
            "conditions": [{"type": "Accepted", "status": "True", "observedGeneration": 1}],
        }
    ]
}


def backends(found: Situation) -> dict[str, int]:
    """Return the weights of the HTTPRoute."""
    (rule,) = child(found.plan.apply, "HTTPRoute", "chat")["spec"]["rules"]
    return {one["name"]: one["weight"] for one in rule["backendRefs"]}


@pytest.mark.parametrize("number", [0, 20, 100])
def test_a_route_has_the_weights_of_the_routers_and_both_backends(number: int):
    stage = Stage(canary={"modelRef": "tiny-2", "weight": number}, rollout={"weight": number}, route=ACCEPTED)
    assert backends(situation(stage)) == {"chat-primary": 100 - number, "chat-canary": number}


def test_a_route_is_the_first_to_leave_a_canary_that_goes():
    assert backends(situation(Stage(rollout={"weight": 20}, route=ACCEPTED))) == {"chat-primary": 1}


@pytest.mark.parametrize(
    ("route", "seconds", "goes"),
    [(ACCEPTED, 61, True), (ACCEPTED, 30, False), ({"parents": []}, 61, False)],
    ids=["accepted a minute ago", "accepted just now", "not accepted yet"],
)
def test_a_canary_is_kept_for_what_gateways_may_have_under_way(route: Json, seconds: float, goes: bool):
    rollout = {"leavingSince": ago(seconds)}
    found = situation(Stage(loaded=(0, 0), leads_to="primary", rollout=rollout, route=route))
    assert deleted(found) == (ALL_OF_IT if goes else [])
