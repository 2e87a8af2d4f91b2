"""Who is woken when the GPU queue moves: those behind, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.core import names
from modelyard.core.objects import Stored
from modelyard.core.resources import POD, Key
from modelyard.core.selectors import Selector
from modelyard.kinds.contract import Every
from modelyard.kinds.inferenceservice.api import CREATED
from modelyard.kinds.inferenceservice.gpu_queue import PodsAhead, Rank
from modelyard.runtime.dependents import Dependents, Item

ME = Item("inferenceservice", Key("here", "me"))
AHEAD = PodsAhead(Rank(-10, "2026-01-01T00:00:05Z", Key("here", "me")))
READ = Every(POD, AHEAD, selector=Selector(((names.KIND_LABEL, "inferenceservice"),)), within=5.0)

WAITS = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient amd.com/gpu."}
SERVES = {"type": "Ready", "status": "True"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def pod(
    *conditions: dict[str, str], priority: int = 10, created: str = "2026-01-01T00:00:01Z", gpus: int = 1
) -> Stored:
    body: dict[str, Any] = {
        "metadata": {
            "name": "other-1",
            "namespace": "there",
            "labels": {names.KIND_LABEL: "inferenceservice", names.INSTANCE_LABEL: "other"},
            "annotations": {CREATED: created},
        },
        "spec": {"priority": priority, "containers": [{"resources": {"limits": {"amd.com/gpu": str(gpus)}}}]},
        "status": {"phase": "Pending", "conditions": conditions},
    }
    return Stored.from_dict(POD, body)


def woken(old: Stored | None, new: Stored | None) -> dict[Item, float]:
    dependents = Dependents()
    dependents.record(ME, [READ])
    return dependents.woken_by(POD, old, new)


def test_a_read_of_the_queue_is_equal_to_itself_later():
    again = Every(POD, PodsAhead(AHEAD.rank), selector=READ.selector, within=5.0)
    assert (again, hash(again)) == (READ, hash(READ))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(pod(), pod(WAITS), id="somebody joins ahead of us"),
        pytest.param(pod(WAITS), pod(SCHEDULED), id="somebody ahead of us gets GPUs"),
        pytest.param(pod(WAITS), None, id="somebody ahead of us gives up"),
        pytest.param(pod(SCHEDULED), pod(SCHEDULED, SERVES), id="somebody ahead of us serves"),
        pytest.param(pod(), pod(WAITS, priority=20, created="2026-01-01T00:00:09Z"), id="priority comes before age"),
    ],
)
def test_news_from_ahead_wakes_us_after_a_while(old: Stored, new: Stored | None):
    assert woken(old, new) == {ME: 5.0}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(pod(), pod(SCHEDULED), id="somebody is scheduled at once"),
        pytest.param(pod(), pod(WAITS, priority=5), id="somebody less important joins"),
        pytest.param(pod(), pod(WAITS, created="2026-01-01T00:00:09Z"), id="somebody younger joins"),
        pytest.param(pod(WAITS), pod(WAITS), id="the scheduler tries again"),
        pytest.param(pod(gpus=0), pod(SERVES, gpus=0), id="somebody serves without GPUs"),
    ],
)
def test_what_cannot_change_our_place_lets_us_sleep(old: Stored, new: Stored | None):
    assert woken(old, new) == {}
