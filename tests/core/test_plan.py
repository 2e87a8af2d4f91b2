"""Who decides the number of pods, and what is known once a plan was carried out."""

from __future__ import annotations

import pytest

from modelyard.core.objects import Stored
from modelyard.core.plan import Outcome, Replicas, overlay
from modelyard.core.resources import DEPLOYMENT, SERVICE, Key

FIXED = Replicas(3)
SCALED = Replicas(1, autoscaled=True, at_least=2)
SINGLE = Replicas(1, fixed=True)
OFF = Replicas(0, autoscaled=True, at_least=2)


@pytest.mark.parametrize(
    ("replicas", "number", "recorded"),
    [
        (FIXED, 3, "3"),
        (Replicas(0), 0, "0"),
        (SCALED, 2, "auto"),
        (Replicas(5, autoscaled=True, at_least=2), 5, "auto"),
        (OFF, 0, "0"),
    ],
)
def test_a_new_child_starts_with(replicas: Replicas, number: int, recorded: str):
    assert (replicas.at_creation, replicas.recorded) == (number, recorded)


@pytest.mark.parametrize(
    ("replicas", "before", "live", "number"),
    [
        pytest.param(FIXED, "3", 3, None, id="nothing changed"),
        pytest.param(FIXED, "3", 7, None, id="a person or a foreign autoscaler scaled it"),
        pytest.param(FIXED, "3", 0, None, id="even to zero"),
        pytest.param(FIXED, "2", 2, 3, id="the user wants another number"),
        pytest.param(FIXED, "2", 3, None, id="which it has already"),
        pytest.param(FIXED, "", 1, 3, id="a child of an earlier operator"),
        pytest.param(FIXED, "auto", 7, 3, id="the autoscaler is gone"),
        pytest.param(Replicas(0), "3", 3, 0, id="switched off"),
        pytest.param(Replicas(0), "3", 0, None, id="switched off by somebody already"),
        pytest.param(SCALED, "auto", 9, None, id="the autoscaler decides"),
        pytest.param(SCALED, "auto", 0, None, id="somebody paused it"),
        pytest.param(SCALED, "3", 3, None, id="an autoscaler takes over without a dip"),
        pytest.param(SCALED, "0", 0, 2, id="an autoscaler cannot start from zero by itself"),
        pytest.param(OFF, "auto", 9, 0, id="switched off under an autoscaler"),
        pytest.param(OFF, "0", 0, None, id="and left there"),
        pytest.param(SINGLE, "1", 3, 1, id="a second pod would do harm"),
        pytest.param(SINGLE, "1", 0, 1, id="and so would none"),
        pytest.param(SINGLE, "1", 1, None, id="one is right"),
    ],
)
def test_the_number_is_changed_to(replicas: Replicas, before: str, live: int, number: int | None):
    assert replicas.change(before, live) == number


def child(name: str, version: str, *finalizers: str) -> Stored:
    meta = {"name": name, "namespace": "a", "uid": name, "resourceVersion": version, "finalizers": finalizers}
    return Stored.from_dict(DEPLOYMENT, {"metadata": meta})


def test_what_was_written_replaces_what_was_seen_and_what_was_deleted_is_gone():
    old, new, gone = child("kept", "1"), child("kept", "2"), child("gone", "1")
    service = Stored.from_dict(SERVICE, {"metadata": {"name": "kept", "namespace": "a"}})
    outcome = Outcome(stored=(new, service), deleted=(gone.ref,))
    assert overlay({old.meta.key: old, gone.meta.key: gone}, outcome, DEPLOYMENT) == {Key("a", "kept"): new}


def test_what_was_deleted_and_has_finalizers_is_still_there():
    slow = child("slow", "1", "example.com/slow")
    assert overlay({slow.meta.key: slow}, Outcome(deleted=(slow.ref,)), DEPLOYMENT) == {slow.meta.key: slow}
