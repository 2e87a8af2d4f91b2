from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from modelyard.core.checks import Answer
from modelyard.core.reasons import Reason
from modelyard.net.hysteresis import QUIET_SECONDS, Hysteresis

GOOD = Answer(True, Reason.ANSWERED, "fine", {"tools": ["a"]})
BETTER = Answer(True, Reason.ANSWERED, "fine", {"tools": ["a", "b"]})
BAD = Answer(False, Reason.NO_ANSWER, "silent")
WORSE = Answer(False, Reason.BAD_ANSWER, "rude")

schedules = st.lists(st.tuples(st.floats(0.5, 60.0), st.sampled_from([GOOD, BETTER, BAD, WORSE])), max_size=40)


def after(*events: tuple[float, Answer]) -> Hysteresis:
    steady = Hysteresis()
    for when, answer in events:
        steady = steady.after(answer, when)
    return steady


def test_a_good_first_answer_counts_at_once() -> None:
    assert after((0, GOOD)).answer == GOOD


def test_a_bad_first_answer_counts_when_it_stays() -> None:
    assert after((0, BAD)).answer is None
    assert after((0, BAD), (1, BAD)).answer is None
    assert after((0, BAD), (1, WORSE), (3, BAD)).answer == BAD


def test_a_bad_first_answer_turns_good_at_once() -> None:
    assert after((0, BAD), (1, GOOD)).answer == GOOD
    assert after((0, BAD), (1, WORSE), (2, BAD), (3, GOOD)).answer == GOOD


def test_a_good_answer_turns_bad_after_three_bad_ones_in_a_row() -> None:
    assert after((0, GOOD), (1, BAD), (2, BAD)).answer == GOOD
    assert after((0, GOOD), (1, BAD), (2, BAD), (3, GOOD), (4, BAD), (5, BAD)).answer == GOOD
    assert after((0, GOOD), (1, BAD), (2, BAD), (3, BAD)).answer == BAD


def test_a_new_value_of_a_good_answer_counts_at_once() -> None:
    assert after((0, GOOD), (1, BETTER)).answer == BETTER


def test_a_turn_stands_for_the_quiet_time() -> None:
    turned = [(0.0, GOOD), (1.0, BAD), (2.0, BAD), (3.0, BAD)]
    assert after(*turned, (20, GOOD)).answer == BAD
    assert after(*turned, (33, GOOD)).answer == GOOD


def test_one_bad_answer_takes_the_place_of_another_once_in_the_quiet_time() -> None:
    believed = [(0.0, BAD), (0.1, BAD), (0.2, BAD)]
    assert after(*believed, (1, WORSE)).answer == WORSE
    assert after(*believed, (1, WORSE), (2, BAD)).answer == WORSE
    assert after(*believed, (1, WORSE), (31, BAD)).answer == BAD


@given(schedules)
def test_turns_are_never_closer_than_the_quiet_time(schedule: list[tuple[float, Answer]]) -> None:
    steady, now, turns = Hysteresis(), 0.0, []
    for gap, answer in schedule:
        now += gap
        before, steady = steady, steady.after(answer, now)
        if before.answer and steady.answer and before.answer.ok != steady.answer.ok:
            turns.append(now)
    assert all(later - earlier >= QUIET_SECONDS for earlier, later in pairwise(turns))


@given(schedules, st.sampled_from([GOOD, BAD]))
def test_a_server_that_settles_is_believed_within_the_quiet_time(
    schedule: list[tuple[float, Answer]], last: Answer
) -> None:
    steady, now = Hysteresis(), 0.0
    for gap, answer in schedule:
        now += gap
        steady = steady.after(answer, now)
    for _ in range(3):
        now += QUIET_SECONDS / 2
        steady = steady.after(last, now)
    assert steady.answer == last


@given(schedules)
def test_only_what_was_answered_is_believed(schedule: list[tuple[float, Answer]]) -> None:
    steady = Hysteresis()
    for now, (_, answer) in enumerate(schedule):
        before, steady = steady, steady.after(answer, now)
        assert steady.answer in (before.answer, answer)


def test_a_good_answer_is_asked_for_again_after_the_interval_give_or_take_a_tenth() -> None:
    assert [after((0, GOOD)).pause(30, 0, chance) for chance in (0.0, 0.5, 1.0)] == [27.0, 30.0, 33.0]


def test_after_bad_answers_the_pause_doubles_up_to_the_interval() -> None:
    pauses = [after(*((n, BAD) for n in range(times))).pause(30, 0, 0.5) for times in range(1, 8)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert after(*((n, BAD) for n in range(5000))).pause(30, 0, 0.5) == 30


def test_a_recovery_that_came_too_early_is_asked_about_when_it_would_count() -> None:
    early = after((0, GOOD), (1, BAD), (2, BAD), (10, BAD), (20, GOOD))
    assert early.answer == BAD
    assert early.pause(300, 20, 0.5) == 20
    assert early.pause(5, 20, 0.5) == 5
