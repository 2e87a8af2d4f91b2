"""A call is made until it succeeds, and then no more."""

from __future__ import annotations

from math import inf

import pytest

from modelyard.core.checks import Answer
from modelyard.core.reasons import Reason
from modelyard.net.attempts import Attempts

DONE = Answer(True, Reason.ANSWERED, "done")
FAILED = Answer(False, Reason.NO_ANSWER, "no answer")


def after(*answers: Answer) -> Attempts:
    attempts = Attempts()
    for answer in answers:
        attempts = attempts.after(answer, 0.0)
    return attempts


def test_every_result_counts_at_once():
    assert after(FAILED).answer == FAILED
    assert after(FAILED, DONE).answer == DONE


def test_a_call_that_has_succeeded_is_not_made_again():
    assert after(FAILED, DONE).pause(inf, 0.0, 0.5) == inf


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1.0), (2, 2.0), (4, 8.0), (7, 60.0), (40, 60.0)])
def test_failures_in_a_row_double_the_wait_up_to_a_minute(failures: int, seconds: float):
    assert after(*[FAILED] * failures).pause(inf, 0.0, 0.5) == pytest.approx(seconds)


@pytest.mark.parametrize(("random", "seconds"), [(0.0, 0.9), (1.0, 1.1)])
def test_calls_that_failed_together_are_spread(random: float, seconds: float):
    assert after(FAILED).pause(inf, 0.0, random) == pytest.approx(seconds)
