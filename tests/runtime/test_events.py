"""What is worth an event in the step from one status to the next."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from modelyard.core.reasons import PROBLEMS, Reason
from modelyard.runtime.events import EventRecorder, event_for_change
from tests.kube.scripted import answer, client_of, serving, status
from tests.runtime.objects import stored
from tests.support.clock import VirtualClock

if TYPE_CHECKING:
    from modelyard.core.objects import Json


def ready(truth: bool, reason: str, message: str = "why") -> Json:
    other = {"type": "Available", "status": "True", "reason": "CrashLoop", "message": "not looked at"}
    return {"conditions": [other, {"type": "Ready", "status": str(truth), "reason": reason, "message": message}]}


STARTING, FINE = ready(False, "Starting"), ready(True, "Ready")
BROKEN = ready(False, "CrashLoop", "it keeps exiting")


def test_the_way_from_create_to_ready_is_no_news():
    steps: list[Json] = [{}, STARTING, ready(False, "RollingOut"), ready(False, "WaitingForAnswer"), FINE]
    assert [event_for_change(before, after) for before, after in pairwise(steps)] == [None] * 4


@pytest.mark.parametrize("reason", sorted(PROBLEMS))
def test_every_problem_is_news(reason: Reason):
    assert event_for_change(STARTING, ready(False, reason, "what")) == (reason, "what")


def test_a_problem_from_the_start_is_news():
    assert event_for_change({}, BROKEN) == (Reason.CRASH_LOOP, "it keeps exiting")


def test_the_same_problem_again_is_no_news():
    assert event_for_change(BROKEN, BROKEN) is None


def test_the_same_problem_with_other_words_is_news():
    assert event_for_change(BROKEN, ready(False, "CrashLoop", "with code 2")) == (Reason.CRASH_LOOP, "with code 2")


def test_another_problem_is_news():
    assert event_for_change(BROKEN, ready(False, "OutOfMemory", "too little")) == (Reason.OUT_OF_MEMORY, "too little")


def test_a_recovery_is_news():
    assert event_for_change(BROKEN, FINE) == (Reason.RECOVERED, "the problem is gone")


def test_a_field_that_cannot_be_kept_is_news_although_the_object_is_ready():
    warned = {"conditions": [*FINE["conditions"], {"type": "Applied", "status": "False", "reason": "FieldNotKept"}]}
    assert event_for_change(FINE, warned) == (Reason.FIELD_NOT_KEPT, "")
    assert event_for_change(warned, warned) is None


def test_being_ready_again_after_a_roll_out_is_no_news():
    assert event_for_change(ready(False, "RollingOut"), FINE) is None


@pytest.mark.parametrize("odd", [{"conditions": None}, {"conditions": ["x"]}, ready(False, "OfAnotherVersion"), {}])
def test_a_status_that_we_do_not_understand_is_no_news(odd: Json):
    assert event_for_change(odd, FINE) is None
    assert event_for_change(FINE, odd) is None


async def test_what_is_gone_is_forgotten():
    about = stored("tools", status=STARTING)
    async with serving(answer({"metadata": {"name": "e", "resourceVersion": "1"}}, 201)) as server:
        async with client_of(server) as client:
            events = EventRecorder(client, VirtualClock(), "test")
            await events.record_change(about, BROKEN)
            events.forget(about.meta.uid)
            await events.record_change(about, FINE)
    assert [asked.json["reason"] for asked in server.asked] == ["CrashLoop"]


async def test_an_object_with_the_longest_name_has_events_too():
    about = stored("a" * 253, status=STARTING)
    async with serving(answer({"metadata": {"name": "e", "resourceVersion": "1"}}, 201)) as server:
        async with client_of(server) as client:
            await EventRecorder(client, VirtualClock(), "test").record_change(about, BROKEN)
    told = server.asked[0].json
    assert (len(told["metadata"]["name"]), told["regarding"]["name"]) == (253, about.meta.name)


@pytest.mark.parametrize(
    ("refusal", "level"),
    [
        (
            'events "e" is forbidden: unable to create new content in namespace a because it is being terminated',
            "debug",
        ),
        ('events "e" is forbidden: exceeded quota: q', "warning"),
    ],
    ids=["deleted-namespace", "quota"],
)
async def test_an_event_that_is_refused_is_worth_a_warning_unless_its_namespace_is_deleted(refusal: str, level: str):
    about = stored("tools", status=STARTING)
    async with serving(status(403, "Forbidden", refusal)) as server, client_of(server) as client:
        with capture_logs() as lines:
            await EventRecorder(client, VirtualClock(), "test").record_change(about, BROKEN)
    assert [line["log_level"] for line in lines] == [level]
