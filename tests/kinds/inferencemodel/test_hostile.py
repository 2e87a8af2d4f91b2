"""Hosts, clocks and users that are up to anything: the status stays true, and no host keeps what is not wanted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from modelyard.core.hosts import HostedModel, ModelState
from modelyard.kinds.inferencehost import INFERENCE_HOST
from modelyard.kinds.inferencemodel import INFERENCE_MODEL
from tests.kinds.inferencemodel.fleet import GIB, Fleet
from tests.kinds.inferencemodel.test_lives import serving


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_an_object_that_is_deleted_by_a_clock_that_is_behind_waits_as_long(fleet: Fleet):
    serving(fleet, "a")
    fleet.daemons["a"].up = False
    fleet.settle(5)
    fleet.now -= timedelta(hours=1)
    fleet.delete(INFERENCE_MODEL, "chat")
    fleet.now += timedelta(hours=1)
    fleet.settle()
    fleet.settle(290)
    assert fleet.exists()
    fleet.daemons["a"].up = True
    fleet.settle(5)
    assert (fleet.exists(), fleet.asked()) == (False, ["a: unload org/chat"])


def test_the_second_object_with_a_model_says_that_its_options_wait_for_the_first_to_go(fleet: Fleet):
    serving(fleet, "a", options={"contextSize": 4096}, placement={"drainSeconds": 0})
    fleet.model("other", options={"contextSize": 8192})
    fleet.settle(60)
    said = fleet.condition("FieldsIgnored", "other")
    assert "a serves without spec.options" in said["message"]
    assert "give both the same spec.options" in said["message"]
    assert fleet.condition("FieldsIgnored") == {}
    fleet.delete(INFERENCE_MODEL, "chat")
    fleet.settle(60, steps=6)
    assert fleet.daemons["a"].loaded["org/chat"].options.context_size == 8192
    assert (fleet.condition("FieldsIgnored", "other"), fleet.condition("Ready", "other")["status"]) == ({}, "True")


def test_what_an_object_left_on_a_host_that_was_down_is_loaded_anew_and_unloaded_by_the_next(fleet: Fleet):
    daemon = fleet.host("a")
    daemon.models["org/chat"] = HostedModel("org/chat", owner="default/gone")
    fleet.model(options={"contextSize": 8192}, placement={"drainSeconds": 0})
    fleet.settle(60, steps=6)
    assert fleet.asked() == ["a: unload org/chat", "a: load org/chat"]
    fleet.delete(INFERENCE_MODEL, "chat")
    fleet.settle(5)
    assert (fleet.asked(), daemon.models) == (["a: unload org/chat"], {})


def test_a_host_that_serves_a_model_that_was_never_asked_for_is_only_counted(fleet: Fleet):
    serving(fleet, "a")
    fleet.daemons["a"].models["org/stranger"] = HostedModel("org/stranger", memory=14 * GIB)
    fleet.settle(60)
    assert (fleet.asked(), fleet.condition("Ready")["status"]) == ([], "True")
    fleet.model("next", model="org/next")
    fleet.settle(60)
    assert fleet.condition("Placed", "next")["reason"] == "InsufficientMemory"
    assert fleet.asked() == []


def test_memory_that_shrinks_under_a_model_moves_nothing_and_takes_nothing_new(fleet: Fleet):
    serving(fleet, "a")
    fleet.daemons["a"].total = GIB
    fleet.settle(60)
    assert (fleet.asked(), fleet.condition("Ready")["status"]) == ([], "True")
    fleet.model("next", model="org/next", memory="1Gi")
    fleet.settle(60)
    assert fleet.condition("Placed", "next")["reason"] == "InsufficientMemory"


@pytest.mark.parametrize("total", [2**61, 0])
def test_a_host_that_reports_nonsense_of_its_memory_holds_up_no_other(fleet: Fleet, total: int):
    fleet.host("liar", memory=total).models["org/huge"] = HostedModel("org/huge", memory=2**61)
    fleet.host("honest")
    fleet.model(replicas=2)
    fleet.settle(60)
    assert fleet.placements()["honest"] == "Ready"


def test_cordons_and_labels_that_come_and_go_move_nothing(fleet: Fleet):
    serving(fleet, "a", hostSelector={"matchLabels": {}})
    for _ in range(5):
        fleet.edit(INFERENCE_HOST, "a", unschedulable=True)
        fleet.settle()
        fleet.edit(INFERENCE_HOST, "a", labels={"room": "attic"}, unschedulable=False)
        fleet.settle()
    assert (fleet.asked(), fleet.condition("Ready")["status"]) == ([], "True")


def test_replicas_that_go_up_and_down_quickly_are_loaded_and_unloaded_at_most_once(fleet: Fleet):
    serving(fleet, "ab", replicas=1)
    for replicas in (2, 1, 2, 1, 2, 1):
        fleet.edit(INFERENCE_MODEL, "chat", replicas=replicas)
        fleet.settle(1)
    fleet.settle(31)
    (loaded, unloaded) = fleet.asked()
    assert (loaded[3:], unloaded[3:]) == ("load org/chat", "unload org/chat")
    assert sum(len(daemon.models) for daemon in fleet.daemons.values()) == 1


def test_a_host_that_is_deleted_while_it_loads_keeps_nothing(fleet: Fleet):
    fleet.host("a").lands = ModelState.LOADING
    fleet.model()
    fleet.settle()
    fleet.delete(INFERENCE_HOST, "a")
    fleet.settle(5)
    assert (fleet.exists("a", INFERENCE_HOST), fleet.daemons["a"].models) == (False, {})
    assert fleet.condition("Ready")["reason"] == "InsufficientHosts"
