"""When to stop writing a field: the server does not keep it, or somebody keeps changing it."""

from __future__ import annotations

import pytest

from modelyard.core import names
from modelyard.core.reasons import Reason
from modelyard.runtime.drift import MAX_REPAIRS, REPAIR_WINDOW, Drift
from tests.runtime.objects import stored
from tests.support.clock import VirtualClock

CHILD = stored("tools", annotations={names.INTENT: "hash"})
FIELD = "spec.paused"


class Counted:
    """A drift, its clock and what it counted."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.counts: list[tuple[str, str]] = []
        self.drift = Drift(self.clock, lambda what, kind: self.counts.append((what, kind)))

    def repair(self, times: int) -> None:
        for _ in range(times):
            assert self.drift.begin_repair(CHILD, FIELD) is None
            self.clock.advance(1.0)


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_a_change_by_somebody_is_put_back_and_counted(counted: Counted):
    assert counted.drift.begin_repair(CHILD, FIELD) is None
    assert counted.counts == [("repaired", "Deployment")]


def test_an_answer_that_holds_what_we_wrote_is_no_problem(counted: Counted):
    assert counted.drift.record_response(CHILD, None) is None
    assert counted.counts == []


def test_a_field_that_the_server_does_not_keep_is_reported_and_not_written_again(counted: Counted):
    problem = counted.drift.record_response(CHILD, FIELD)
    assert problem is not None
    assert problem.reason is Reason.FIELD_NOT_KEPT
    assert "spec.paused of Deployment tools" in problem.message
    assert problem.remedy
    assert counted.drift.begin_repair(CHILD, FIELD) == problem
    assert counted.counts == [("not_kept", "Deployment")]


def test_another_field_of_that_child_is_still_put_back(counted: Counted):
    counted.drift.record_response(CHILD, FIELD)
    assert counted.drift.begin_repair(CHILD, "spec.selector") is None


def test_another_intent_is_tried_again(counted: Counted):
    counted.drift.record_response(CHILD, FIELD)
    assert counted.drift.begin_repair(stored("tools", annotations={names.INTENT: "other"}), FIELD) is None


def test_a_field_that_is_kept_after_all_is_forgiven(counted: Counted):
    counted.drift.record_response(CHILD, FIELD)
    counted.drift.record_response(CHILD, None)
    assert counted.drift.begin_repair(CHILD, FIELD) is None


def test_a_fight_ends_after_ten_rounds(counted: Counted):
    counted.repair(MAX_REPAIRS)
    problem = counted.drift.begin_repair(CHILD, FIELD)
    assert problem is not None
    assert problem.reason is Reason.FIELD_CONTESTED
    assert problem.remedy
    assert len(counted.counts) == MAX_REPAIRS


def test_a_fight_of_one_child_does_not_disarm_another(counted: Counted):
    counted.repair(MAX_REPAIRS)
    assert counted.drift.begin_repair(stored("other"), FIELD) is None


def test_after_a_while_it_is_put_back_again(counted: Counted):
    counted.repair(MAX_REPAIRS)
    assert counted.drift.begin_repair(CHILD, FIELD) is not None
    counted.clock.advance(REPAIR_WINDOW)
    assert counted.drift.begin_repair(CHILD, FIELD) is None


def test_pruning_is_remembered_for_one_child(counted: Counted):
    assert not counted.drift.is_prunable(CHILD)
    counted.drift.mark_prunable(CHILD)
    assert counted.drift.is_prunable(CHILD)
    assert not counted.drift.is_prunable(stored("other"))


def test_a_child_that_is_gone_is_forgotten(counted: Counted):
    counted.drift.record_response(CHILD, FIELD)
    counted.drift.mark_prunable(CHILD)
    counted.drift.forget(CHILD.meta.uid)
    assert counted.drift.begin_repair(CHILD, FIELD) is None
    assert not counted.drift.is_prunable(CHILD)


def test_a_fight_over_the_label_by_which_a_child_is_watched_ends_too(counted: Counted):
    for _ in range(MAX_REPAIRS):
        counted.repair(1)
        counted.drift.forget(CHILD.meta.uid)
    problem = counted.drift.begin_repair(CHILD, FIELD)
    assert problem is not None
    assert problem.reason is Reason.FIELD_CONTESTED


def test_fights_that_are_over_are_forgotten(counted: Counted):
    counted.repair(MAX_REPAIRS)
    counted.clock.advance(REPAIR_WINDOW)
    counted.drift.begin_repair(stored("other"), FIELD)
    assert set(counted.drift._repairs) == {"uid-of-other"}
