"""When to stop writing a field: the server does not keep it, or somebody keeps changing it."""

from __future__ import annotations

import pytest

from modelyard.core import names
from modelyard.core.reasons import Reason
from modelyard.runtime.drift import REPAIRS, WINDOW, Drift
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
            assert self.drift.settled(CHILD, FIELD) is None
            self.clock.advance(1.0)


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_a_change_by_somebody_is_put_back_and_counted(counted: Counted):
    assert counted.drift.settled(CHILD, FIELD) is None
    assert counted.counts == [("repaired", "Deployment")]


def test_an_answer_that_holds_what_we_wrote_is_no_problem(counted: Counted):
    assert counted.drift.judge(CHILD, None) is None
    assert counted.counts == []


def test_a_field_that_the_server_does_not_keep_is_reported_and_not_written_again(counted: Counted):
    problem = counted.drift.judge(CHILD, FIELD)
    assert problem is not None
    assert problem.reason is Reason.FIELD_NOT_KEPT
    assert "spec.paused of Deployment tools" in problem.message
    assert problem.remedy
    assert counted.drift.settled(CHILD, FIELD) == problem
    assert counted.counts == [("not_kept", "Deployment")]


def test_another_field_of_that_child_is_still_put_back(counted: Counted):
    counted.drift.judge(CHILD, FIELD)
    assert counted.drift.settled(CHILD, "spec.selector") is None


def test_another_intent_is_tried_again(counted: Counted):
    counted.drift.judge(CHILD, FIELD)
    assert counted.drift.settled(stored("tools", annotations={names.INTENT: "other"}), FIELD) is None


def test_a_field_that_is_kept_after_all_is_forgiven(counted: Counted):
    counted.drift.judge(CHILD, FIELD)
    counted.drift.judge(CHILD, None)
    assert counted.drift.settled(CHILD, FIELD) is None


def test_a_fight_ends_after_ten_rounds(counted: Counted):
    counted.repair(REPAIRS)
    problem = counted.drift.settled(CHILD, FIELD)
    assert problem is not None
    assert problem.reason is Reason.FIELD_CONTESTED
    assert problem.remedy
    assert len(counted.counts) == REPAIRS


def test_a_fight_of_one_child_does_not_disarm_another(counted: Counted):
    counted.repair(REPAIRS)
    assert counted.drift.settled(stored("other"), FIELD) is None


def test_after_a_while_it_is_put_back_again(counted: Counted):
    counted.repair(REPAIRS)
    assert counted.drift.settled(CHILD, FIELD) is not None
    counted.clock.advance(WINDOW)
    assert counted.drift.settled(CHILD, FIELD) is None


def test_pruning_is_remembered_for_one_child(counted: Counted):
    assert not counted.drift.prunes(CHILD)
    counted.drift.will_prune(CHILD)
    assert counted.drift.prunes(CHILD)
    assert not counted.drift.prunes(stored("other"))


def test_a_child_that_is_gone_is_forgotten(counted: Counted):
    counted.drift.judge(CHILD, FIELD)
    counted.drift.will_prune(CHILD)
    counted.drift.forget(CHILD.meta.uid)
    assert counted.drift.settled(CHILD, FIELD) is None
    assert not counted.drift.prunes(CHILD)


def test_a_fight_over_the_label_by_which_a_child_is_watched_ends_too(counted: Counted):
    for _ in range(REPAIRS):
        counted.repair(1)
        counted.drift.forget(CHILD.meta.uid)
    problem = counted.drift.settled(CHILD, FIELD)
    assert problem is not None
    assert problem.reason is Reason.FIELD_CONTESTED


def test_fights_that_are_over_are_forgotten(counted: Counted):
    counted.repair(REPAIRS)
    counted.clock.advance(WINDOW)
    counted.drift.settled(stored("other"), FIELD)
    assert set(counted.drift._repairs) == {"uid-of-other"}
