"""The steps of a canary: judged by what the routers count, and remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from modelyard.kinds.zerfooinferenceservice.api import Canary
from modelyard.kinds.zerfooinferenceservice.rollout import identity
from tests.kinds.canaries import Stage, ago, situation
from tests.kinds.test_canary import ALL_OF_IT, deleted, leads_to, reason, weight

if TYPE_CHECKING:
    from tests.kinds.cases import Situation

Json = dict[str, Any]

FIRST = {"weight": 20, "duration": "10m", "maxErrorRate": "1%", "maxP95Latency": "2s", "minRequests": 10}
CANARY = {"modelRef": "tiny-2", "steps": [FIRST, {"weight": 60, "duration": "10m"}], "promote": "Auto"}
NAME = identity(msgspec.convert(CANARY, Canary))


def counted(requests: int, errors: int = 0, slow: int = 0) -> Json:
    """Return what a router counts when so many answers take a second, and so many of them five."""
    return {"requests": requests, "errors": errors, "within": {1000.0: requests - slow, 5000.0: requests}}


def kept(requests: int) -> Json:
    return {"requests": requests, "errors": 0, "within": {"1000.0": requests, "5000.0": requests}}


def step(seconds: float, before: int = 0, **more: Any) -> Json:
    """Return the memory of a first step that began so many seconds ago."""
    pods = {f"chat-router-{number}": kept(before) for number in (1, 2)} if before else {}
    return {"canary": NAME, "weight": 20, "since": ago(seconds), **({"counted": pods} if pods else {}), **more}


def judged(rollout: Json, figures: Json, **more: Any) -> Situation:
    return situation(Stage(canary=CANARY, rollout=rollout, figures=figures, **more))


def test_the_first_step_begins_when_the_canary_is_ready():
    found = situation(Stage(canary=CANARY, loaded=(0, 0), leads_to="primary"))
    assert (weight(found), found.status["rollout"]) == (20, {"canary": NAME, "weight": 20})


def test_its_time_runs_from_when_its_weight_is_in_force_and_so_do_its_figures():
    waiting = judged({"canary": NAME, "weight": 20}, counted(7), loaded=(0, 20))
    assert waiting.status["rollout"] == {"canary": NAME, "weight": 20}
    begun = judged({"canary": NAME, "weight": 20}, counted(7))
    assert begun.status["rollout"]["since"] == ago(0)
    assert begun.status["rollout"]["counted"]["chat-router-2"] == kept(7)


def test_it_takes_its_time_and_is_looked_at_again_then():
    found = judged(step(540), counted(100))
    assert (weight(found), found.status["rollout"]["weight"]) == (20, 20)
    assert found.plan.requeue_after
    assert found.plan.requeue_after.seconds == 60.0


@pytest.mark.parametrize("since", [ago(-3600), "soon"], ids=["to come", "nonsense"])
def test_a_clock_that_was_set_back_ends_no_step_and_a_time_that_makes_no_sense_neither(since: str):
    found = judged({**step(0), "since": since}, counted(100))
    assert (weight(found), found.status["rollout"]) == (20, {**step(0), "since": since})
    assert found.plan.requeue_after
    assert found.plan.requeue_after.seconds == 600.0


def test_after_its_time_the_next_step_follows():
    found = judged(step(600), counted(100))
    assert (weight(found), found.status["rollout"]) == (60, {"canary": NAME, "weight": 60, "step": 1})


def test_too_few_requests_are_neither_success_nor_failure():
    found = judged(step(6000), counted(4, errors=4))
    assert (weight(found), found.status["rollout"]) == (20, step(6000))
    assert reason(found) == "WeightsLoaded"


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        (counted(50, errors=1), "2.0 % of 100 answers were errors, and 1% may be"),
        (counted(50, slow=10), "5 % of 100 answers took longer than"),
    ],
    ids=["errors", "slow answers"],
)
def test_a_broken_limit_takes_all_weight_from_it_at_once_and_for_good(figures: Json, says: str):
    found = judged(step(30), figures)
    assert weight(found) == 0
    assert found.status["rollout"]["verdict"] == "RolledBack"
    assert says in found.status["message"]
    assert (reason(found), reason(found, "Ready"), found.status["phase"]) == ("RolledBack", "RolledBack", "Degraded")
    later = judged(found.status["rollout"], counted(9000), loaded=(0, 0))
    assert (weight(later), reason(later), later.status["rollout"]) == (0, "RolledBack", found.status["rollout"])


def test_what_came_before_the_step_does_not_count():
    assert judged(step(30, before=1000), counted(1004, errors=4)).status["rollout"]["weight"] == 20


def test_a_router_that_started_anew_is_judged_by_what_it_has_counted_since():
    found = judged(step(30, before=1000), counted(50, errors=25))
    assert found.status["rollout"]["verdict"] == "RolledBack"


def test_a_canary_that_loses_its_pods_begins_its_step_again():
    found = judged(step(300), counted(100), ready={"canary": 0})
    assert (weight(found), found.status["rollout"], reason(found)) == (0, {"canary": NAME}, "CanaryDegraded")


def test_other_steps_or_another_model_begin_anew():
    changed = {**CANARY, "modelRef": "tiny-3"}
    found = situation(Stage(canary=changed, rollout={"canary": NAME, "verdict": "RolledBack"}, loaded=(0, 0)))
    assert (weight(found), found.status["rollout"]["weight"]) == (20, 20)


def test_another_model_gets_nothing_while_the_pods_are_those_of_one_that_was_rolled_back():
    changed = {**CANARY, "modelRef": "tiny-3"}
    rolled_back = {"canary": NAME, "verdict": "RolledBack"}
    found = situation(Stage(canary=changed, canary_model="tiny-2", rollout=rolled_back, loaded=(0, 0)))
    assert (weight(found), "weight" in found.status["rollout"], reason(found)) == (0, False, "WaitingForPods")


def test_a_step_of_another_model_does_not_begin_while_pods_of_the_earlier_one_answer():
    changed = {**CANARY, "modelRef": "tiny-3"}
    anew = {"canary": identity(msgspec.convert(changed, Canary)), "weight": 20}
    found = situation(Stage(canary=changed, canary_model="tiny-2", rollout=anew, figures=counted(100)))
    assert (weight(found), found.status["rollout"]) == (20, anew)
    begun = situation(Stage(canary=changed, rollout=anew, figures=counted(100)))
    assert begun.status["rollout"]["since"] == ago(0)


def test_pods_that_take_long_to_start_are_waited_for_without_looking_again_and_again():
    found = situation(Stage(canary=CANARY, rollout={"canary": NAME}, loaded=(0, 0), ready={"canary": 0}))
    assert (leads_to(found), found.plan.requeue_after) == ("chat-router", None)


def test_after_the_last_step_the_primary_takes_the_model_while_the_canary_serves_on():
    last = {"canary": NAME, "weight": 60, "step": 1, "since": ago(600)}
    found = judged(last, counted(100), loaded=(60, 60))
    promoted = {"canary": NAME, "weight": 60, "step": 1, "verdict": "Promoted"}
    assert found.status["rollout"] == promoted
    assert found.plan.requeue_after
    assert found.plan.requeue_after.seconds == 0.0
    rolling = judged(promoted, {}, loaded=(60, 60))
    assert (weight(rolling), leads_to(rolling), deleted(rolling)) == (60, "chat-router", [])
    assert rolling.status["tracks"][0]["model"] == "tiny-2"


def test_then_traffic_moves_over_and_the_canary_goes_as_if_it_was_removed():
    promoted = {"canary": NAME, "step": 1, "verdict": "Promoted"}
    moving = judged({**promoted, "weight": 60}, {}, loaded=(60, 60), primary_model="tiny-2")
    assert (weight(moving), leads_to(moving)) == (0, "chat-router")
    gone = judged({**promoted, "leavingSince": ago(11)}, {}, loaded=(0, 0), leads_to="primary", primary_model="tiny-2")
    assert (deleted(gone), gone.status["rollout"]) == (ALL_OF_IT, promoted)
    after = judged(promoted, {}, gone=frozenset({"router", "canary"}), leads_to="primary", primary_model="tiny-2")
    assert (reason(after), after.status["ready"], after.status["rollout"]) == ("Promoted", True, promoted)


def test_by_hand_the_last_weight_stays_and_the_status_tells_the_next_step():
    manual = {**CANARY, "promote": "Manual"}
    last = {"canary": NAME, "weight": 60, "step": 1, "since": ago(600)}
    found = situation(Stage(canary=manual, rollout=last, loaded=(60, 60), figures=counted(100)))
    assert (weight(found), found.status["rollout"]["verdict"], reason(found)) == (60, "Passed", "WeightsLoaded")
    assert found.status["ready"] is True


def test_a_canary_that_has_passed_is_promoted_when_the_spec_says_so_later():
    passed = {"canary": NAME, "weight": 60, "step": 1, "verdict": "Passed"}
    found = judged(passed, counted(100), loaded=(60, 60))
    assert found.status["rollout"] == {**passed, "verdict": "Promoted"}
    assert found.plan.requeue_after
    assert found.plan.requeue_after.seconds == 0.0
