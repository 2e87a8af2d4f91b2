"""Conditions, as they are stated and as they are stored."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from modelyard.core.conditions import Condition, Problem, Truth, condition, failing, merged, ready_since
from modelyard.core.reasons import Reason

if TYPE_CHECKING:
    from modelyard.core.objects import Json

BEFORE, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
OWNED = frozenset({"Ready", "Available"})


def stored(kind: str, status: str, message: str = "old", since: str = BEFORE) -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": "Starting",
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": 1,
    }


def ready(truth: Truth, message: str = "new") -> Condition:
    return condition("Ready", truth, Reason.STARTING, message)


def test_a_condition_that_is_new_begins_now():
    (entry,) = merged([ready(Truth.TRUE)], [], OWNED, 2, NOW)
    assert entry == {**stored("Ready", "True", "new", NOW), "observedGeneration": 2}


def test_the_transition_time_stays_while_the_status_value_does():
    (entry,) = merged([ready(Truth.FALSE)], [stored("Ready", "False")], OWNED, 2, NOW)
    assert entry == {**stored("Ready", "False", "new", BEFORE), "observedGeneration": 2}


@pytest.mark.parametrize(("old", "new"), [("False", Truth.TRUE), ("Unknown", Truth.FALSE), ("True", Truth.UNKNOWN)])
def test_the_transition_time_moves_with_the_status_value(old: str, new: Truth):
    (entry,) = merged([ready(new)], [stored("Ready", old)], OWNED, 1, NOW)
    assert entry["lastTransitionTime"] == NOW


def test_the_same_statement_again_changes_nothing():
    stated = [ready(Truth.TRUE), condition("Available", True, Reason.PODS_READY, "")]
    once = merged(stated, [], OWNED, 1, BEFORE)
    assert merged(stated, once, OWNED, 1, NOW) == once


def test_conditions_of_others_stay_as_they_are():
    foreign = stored("Audited", "True") | {"extra": "kept"}
    assert merged([ready(Truth.TRUE)], [foreign], OWNED, 1, NOW)[0] == foreign


def test_a_condition_of_ours_that_is_not_stated_any_more_is_dropped():
    assert [entry["type"] for entry in merged([ready(Truth.TRUE)], [stored("Available", "True")], OWNED, 1, NOW)] == [
        "Ready"
    ]


def test_conditions_stay_in_their_places():
    before = [stored("Audited", "True"), stored("Ready", "False"), stored("Available", "True")]
    stated = [condition("Available", True, Reason.PODS_READY, ""), ready(Truth.TRUE)]
    assert [entry["type"] for entry in merged(stated, before, OWNED, 1, NOW)] == ["Audited", "Ready", "Available"]


def test_an_entry_without_a_time_gets_one():
    before = {"type": "Ready", "status": "True"}
    assert merged([ready(Truth.TRUE)], [before], OWNED, 1, NOW)[0]["lastTransitionTime"] == NOW


def test_an_empty_message_is_written_because_the_schema_wants_one():
    assert merged([ready(Truth.TRUE, "")], [], OWNED, 1, NOW)[0]["message"] == ""


def test_a_message_ends_where_the_api_ends_it():
    assert len(ready(Truth.TRUE, "x" * 40000).message) == 32768


@pytest.mark.parametrize(("given", "truth"), [(True, Truth.TRUE), (False, Truth.FALSE), (Truth.UNKNOWN, Truth.UNKNOWN)])
def test_a_truth_may_be_stated_as_a_boolean(given: bool | Truth, truth: Truth):
    assert condition("Ready", given, Reason.READY, "").status is truth


def test_a_problem_ends_with_its_remedy():
    problem = Problem(Reason.NO_ANSWER, "nobody answers", "ring again")
    assert failing("Ready", problem).message == "nobody answers; ring again"
    assert failing("Ready", problem).status is Truth.FALSE


def test_a_problem_without_a_remedy_is_said_alone():
    assert Problem(Reason.API_UNAVAILABLE, "out of reach").text == "out of reach"


def test_the_time_of_the_last_turn_is_read_from_the_ready_condition():
    status = {"conditions": [stored("Available", "True", since=NOW), stored("Ready", "False")]}
    assert ready_since(status) == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"conditions": None},
        {"conditions": [{"type": "Ready"}]},
        {"conditions": [stored("Ready", "True", since="x")]},
    ],
)
def test_a_status_that_does_not_say_since_when_is_no_trouble(status: Json):
    assert ready_since(status) is None


def test_a_message_is_one_line_that_steers_no_terminal():
    said = condition("Ready", False, Reason.BAD_ANSWER, "the file a\x1b[2J\u202e.gguf\r\nis \x9bodd")
    assert said.message == "the file a[2J.gguf  is odd"
