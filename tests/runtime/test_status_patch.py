"""The status that is stored, and the smallest patch that leads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import Struct

from modelyard.core.conditions import Problem, Truth, condition
from modelyard.core.reasons import Reason
from modelyard.kinds.inferenceservice import INFERENCE_SERVICE
from modelyard.kinds.mcp import MCP
from modelyard.kinds.mcp.api import McpStatus, ServerReport
from modelyard.runtime import status
from tests.runtime.objects import stored

if TYPE_CHECKING:
    from modelyard.core.objects import Json

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
PROBLEM = Problem(Reason.INVALID_SPEC, "spec.image: expected text", "correct it")
SAID = McpStatus(
    ready=True,
    url="http://x",
    server=ServerReport("everything", "1", "2025-06-18"),
    tool_count=1,
    tools=("add",),
    conditions=(condition("Ready", Truth.TRUE, Reason.READY, "fine"),),
)


def applied(old: Json, patch: Json) -> Json:
    """Carry out a merge patch, as the API server does."""
    result = dict(old)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            before = old.get(name)
            result[name] = applied(before if isinstance(before, dict) else {}, value)
        else:
            result[name] = value
    return result


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param({"a": 1}, {"a": 1}, {}, id="equal"),
        pytest.param({}, {"a": 1}, {"a": 1}, id="new"),
        pytest.param({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 2}, id="changed"),
        pytest.param({"a": 1}, {"a": None}, {"a": None}, id="taken away"),
        pytest.param({}, {"a": None}, {}, id="never there"),
        pytest.param({"other": 1}, {"a": 1}, {"a": 1}, id="what others wrote stays"),
        pytest.param({"a": {"x": 1, "y": 1}}, {"a": {"x": 1, "y": 2}}, {"a": {"y": 2}}, id="changed inside"),
        pytest.param({"a": {"x": 1, "y": 1}}, {"a": {"x": 1}}, {"a": {"y": None}}, id="taken away inside"),
        pytest.param({"a": {"x": 1}}, {"a": {"x": 1}}, {}, id="equal inside"),
        pytest.param({"a": [1, 2]}, {"a": [1, 2, 3]}, {"a": [1, 2, 3]}, id="a list is written whole"),
        pytest.param({"a": [1]}, {"a": []}, {"a": []}, id="a list that is empty now"),
        pytest.param({}, {"a": False, "b": 0, "c": ""}, {"a": False, "b": 0, "c": ""}, id="zeros are statements"),
        pytest.param({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}, id="a mapping in place of a number"),
    ],
)
def test_the_patch_is_as_small_as_can_be(old: Json, new: Json, patch: Json):
    found = status.merge_patch(stored("a", status=old), new, LATER)
    assert found == patch
    after = applied(old, found)
    assert status.merge_patch(stored("a", status=after), new, LATER) == {}, "after it there is nothing left to write"


def test_an_object_without_a_status_gets_a_whole_one():
    assert status.merge_patch(stored("a"), {"ready": False}, LATER) == {"ready": False}


def test_the_same_summary_later_is_no_news():
    first = status.summary(MCP, stored("a"), SAID, None, NOW)
    after = stored("a", status=applied({}, first))
    assert status.merge_patch(after, status.summary(MCP, after, SAID, None, LATER), LATER) == {}


def test_a_summary_speaks_of_this_generation():
    said = status.summary(MCP, stored("a"), SAID, None, NOW)
    assert said["observedGeneration"] == 1
    assert said["conditions"][0]["observedGeneration"] == 1
    assert said["tools"] == ["add"]


def test_a_warning_is_a_condition_of_its_own_that_goes_when_it_is_over():
    warned = status.summary(MCP, stored("a"), SAID, PROBLEM, NOW)
    assert [(entry["type"], entry["status"], entry["reason"]) for entry in warned["conditions"]] == [
        ("Ready", "True", "Ready"),
        ("Applied", "False", "InvalidSpec"),
    ]
    over = status.summary(MCP, stored("a", status=warned), SAID, None, LATER)
    assert [entry["type"] for entry in over["conditions"]] == ["Ready"]


def test_an_object_that_is_stuck_claims_nothing_of_its_children_any_more():
    told = status.on_error(MCP, stored("a"), PROBLEM, NOW)["conditions"]
    assert {entry["type"]: entry["status"] for entry in told} == {
        "Available": "Unknown",
        "Responding": "Unknown",
        "Ready": "False",
    }


def test_an_object_that_is_stuck_keeps_its_other_fields():
    before = status.summary(MCP, stored("a"), SAID, None, NOW)
    stuck = status.on_error(MCP, stored("a", status=before), PROBLEM, LATER)
    patch = status.merge_patch(stored("a", status=before), stuck, LATER)
    assert patch.keys() == {"ready", "conditions"}
    after = applied(before, patch)
    assert (after["ready"], after["url"]) == (False, "http://x")
    assert after["conditions"][0]["message"] == "spec.image: expected text; correct it"
    assert after["conditions"][0]["lastTransitionTime"] == LATER


def test_a_service_that_is_stuck_has_not_failed_while_it_may_serve():
    serving, empty = {"phase": "Ready", "readyReplicas": 2}, {"phase": "Creating"}
    busy = Problem(Reason.API_UNAVAILABLE, "no answer")
    told = INFERENCE_SERVICE.status_on_error
    phases = [told(before, problem) for before in (serving, empty) for problem in (PROBLEM, busy)]
    assert phases == [{"phase": "Progressing"}, {"phase": "Progressing"}, {"phase": "Failed"}, {}]


def test_an_object_that_is_stuck_says_when_that_began():
    before = {"lastUpdated": NOW, "phase": "Ready", "readyReplicas": 1}
    told = status.on_error(INFERENCE_SERVICE, stored("a", status=before), PROBLEM, LATER)
    assert status.merge_patch(stored("a", status=before), told, LATER)["lastUpdated"] == LATER


def test_an_object_that_is_paused_says_so_and_how_to_go_on():
    before = status.summary(MCP, stored("a"), SAID, None, NOW)
    patch = status.merge_patch(stored("a", status=before), status.paused(stored("a", status=before), LATER), LATER)
    (ready, paused) = patch["conditions"]
    assert ready == before["conditions"][0]
    assert (paused["type"], paused["status"], paused["reason"]) == ("Paused", "True", "Paused")
    assert "modelyard.dev/paused" in paused["message"]


def test_going_on_takes_the_pause_away():
    paused = stored("a", status=status.paused(stored("a"), NOW))
    said = status.summary(MCP, paused, SAID, None, NOW)
    assert [entry["type"] for entry in said["conditions"]] == ["Ready"]


def test_conditions_that_make_no_sense_are_dropped_without_a_crash():
    odd = stored("a", status={"conditions": ["what", 7, {"type": "Audited", "status": "True"}]})
    kinds = [entry["type"] for entry in status.summary(MCP, odd, SAID, None, NOW)["conditions"]]
    assert kinds == ["Audited", "Ready"]


def test_the_time_of_the_last_change_moves_only_with_a_change():
    before = {"phase": "Ready", "lastUpdated": NOW}
    assert status.merge_patch(stored("a", status=before), {"phase": "Ready", "lastUpdated": ""}, LATER) == {}
    patch = status.merge_patch(stored("a", status=before), {"phase": "Failed", "lastUpdated": ""}, LATER)
    assert patch == {"phase": "Failed", "lastUpdated": LATER}


class Seats(Struct, frozen=True):
    seats: tuple[int, ...]


def test_a_memory_with_lists_is_written_once():
    wanted = status.memory_fields(Seats(seats=(1, 2)))
    assert status.merge_patch(stored("a"), wanted, NOW) == wanted
    assert status.merge_patch(stored("a", status=wanted), wanted, LATER) == {}
