"""What hosts are told of a model: options, which it is loaded with, and terms, which may change while it serves."""

from __future__ import annotations

import pytest

from modelyard.core.hosts import HostedModel, LoadOptions, LoadTerms, ModelState
from modelyard.kinds.inferencemodel import INFERENCE_MODEL
from tests.kinds.inferencemodel.fleet import GIB, Fleet

TERMS = {"priority": "high", "evictionProtection": True, "aliases": ["chat"]}
TOLD = LoadTerms("high", eviction_protection=True, aliases=("chat",))


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def serving(fleet: Fleet, hosts: str = "ab", **spec: object) -> Fleet:
    """Return the fleet with these hosts and a model that is ready on them."""
    for name in hosts:
        fleet.host(name)
    fleet.model(replicas=len(hosts), **spec)
    fleet.settle()
    assert fleet.condition("Ready")["status"] == "True"
    fleet.asked()
    return fleet


def told(fleet: Fleet) -> list[tuple[LoadOptions, LoadTerms]]:
    """Return what each host knows of the model that it has."""
    return [(call.options, call.terms) for daemon in fleet.daemons.values() for call in daemon.loaded.values()]


def test_hosts_are_told_how_to_load_a_model_and_what_it_is_worth(fleet: Fleet):
    serving(fleet, "a", options={"contextSize": 8192, "parallelSlots": 2}, **TERMS)
    assert told(fleet) == [(LoadOptions(8192, 2), TOLD)]
    assert fleet.status()["assignments"][0]["options"] == "contextSize=8192,parallel=2"


def test_a_model_without_settings_is_asked_for_as_ever(fleet: Fleet):
    serving(fleet, "a")
    assert told(fleet) == [(LoadOptions(), LoadTerms())]
    assert (fleet.status()["assignments"][0]["options"], fleet.status()["assignments"][0]["terms"]) == ("", "")


def test_new_terms_are_told_to_each_host_once_and_no_request_is_lost(fleet: Fleet):
    serving(fleet)
    fleet.edit(INFERENCE_MODEL, "chat", **TERMS)
    fleet.settle()
    assert fleet.asked() == ["a: load org/chat", "b: load org/chat"]
    assert told(fleet) == [(LoadOptions(), TOLD)] * 2
    assert fleet.endpoints() == [("10.0.0.1", True), ("10.0.0.2", True)]
    fleet.settle(600, steps=10)
    assert fleet.asked() == []


def test_a_host_that_had_the_model_already_is_told_the_terms_of_ours(fleet: Fleet):
    daemon = fleet.host("a")
    daemon.shows("org/chat", ModelState.READY)
    fleet.model(**TERMS)
    fleet.settle()
    assert fleet.asked() == ["a: load org/chat"]
    assert told(fleet) == [(LoadOptions(), TOLD)]


def test_other_options_are_loaded_host_by_host_while_the_others_serve(fleet: Fleet):
    serving(fleet, placement={"drainSeconds": 10})
    fleet.edit(INFERENCE_MODEL, "chat", options={"contextSize": 8192})
    fleet.settle()
    assert fleet.endpoints() == [("10.0.0.1", False), ("10.0.0.2", True)]
    assert (fleet.asked(), fleet.condition("Ready")["status"]) == ([], "False")
    for daemon in fleet.daemons.values():
        daemon.lands = ModelState.LOADING
    fleet.settle(10)
    assert fleet.asked() == ["a: unload org/chat", "a: load org/chat"]
    assert fleet.endpoints() == [("10.0.0.2", True)]
    fleet.daemons["a"].shows("org/chat", ModelState.READY)
    fleet.settle(5)
    assert fleet.endpoints() == [("10.0.0.1", True), ("10.0.0.2", False)]
    fleet.settle(10)
    fleet.daemons["b"].shows("org/chat", ModelState.READY)
    fleet.settle(5)
    assert fleet.asked() == ["b: unload org/chat", "b: load org/chat"]
    assert told(fleet) == [(LoadOptions(8192), LoadTerms())] * 2
    assert fleet.endpoints() == [("10.0.0.1", True), ("10.0.0.2", True)]
    fleet.settle(600, steps=10)
    assert fleet.asked() == []


def test_a_model_that_goes_while_it_is_loaded_anew_is_unloaded(fleet: Fleet):
    serving(fleet, "a", placement={"drainSeconds": 10})
    fleet.edit(INFERENCE_MODEL, "chat", options={"contextSize": 8192})
    fleet.settle()
    fleet.delete(INFERENCE_MODEL, "chat")
    fleet.settle(60, steps=6)
    assert (fleet.exists(), fleet.asked(), fleet.daemons["a"].models) == (False, ["a: unload org/chat"], {})


def test_options_of_a_model_that_another_object_uses_stay_until_that_has_gone(fleet: Fleet):
    serving(fleet, "a")
    fleet.model("other")
    fleet.settle()
    fleet.edit(INFERENCE_MODEL, "chat", options={"contextSize": 8192})
    fleet.settle(60)
    assert fleet.asked() == []
    fleet.delete(INFERENCE_MODEL, "other")
    fleet.settle(60, steps=6)
    assert fleet.asked() == ["a: unload org/chat", "a: load org/chat"]


def test_what_a_person_has_loaded_is_not_loaded_anew(fleet: Fleet):
    fleet.host("a").shows("org/chat", ModelState.READY)
    fleet.model()
    fleet.settle()
    fleet.edit(INFERENCE_MODEL, "chat", options={"contextSize": 8192})
    fleet.settle(60)
    assert fleet.asked() == []


def test_a_model_takes_no_more_than_its_share_of_a_host(fleet: Fleet):
    fleet.host("small", memory=8 * GIB)
    fleet.model(memoryFraction=0.25)
    fleet.settle()
    assert fleet.condition("Placed")["reason"] == "InsufficientMemory"
    fleet.host("large", memory=16 * GIB)
    fleet.settle()
    assert fleet.placements() == {"large": "Ready"}


def test_what_a_person_had_loaded_and_has_gone_is_ours_once_we_load_it(fleet: Fleet):
    daemon = fleet.host("a")
    daemon.shows("org/chat", ModelState.READY)
    fleet.model(placement={"drainSeconds": 0})
    fleet.settle()
    daemon.models.clear()
    fleet.settle(5)
    assert fleet.asked() == ["a: load org/chat"]
    fleet.delete(INFERENCE_MODEL, "chat")
    fleet.settle(5)
    assert (fleet.exists(), fleet.asked(), daemon.models) == (False, ["a: unload org/chat"], {})


def test_a_model_that_we_loaded_before_is_ours_although_it_is_listed_already(fleet: Fleet):
    daemon = fleet.host("a")
    daemon.models["org/chat"] = HostedModel("org/chat", owner="default/chat")
    fleet.model(placement={"drainSeconds": 0})
    fleet.settle()
    fleet.delete(INFERENCE_MODEL, "chat")
    fleet.settle(5)
    assert fleet.asked() == ["a: unload org/chat"]


def test_another_memory_is_told_to_the_host_once_and_makes_room_there(fleet: Fleet):
    daemon = serving(fleet, "a", memory="12Gi").daemons["a"]
    fleet.model("code", model="org/code", memory="8Gi")
    fleet.settle()
    assert fleet.condition("Placed", "code")["reason"] == "InsufficientMemory"
    fleet.edit(INFERENCE_MODEL, "chat", memory="6Gi")
    fleet.settle()
    assert fleet.asked() == ["a: load org/chat", "a: load org/code"]
    assert daemon.models["org/chat"].memory == 6 * GIB
    fleet.settle(600, steps=10)
    assert fleet.asked() == []


def test_a_host_that_keeps_to_its_own_number_is_told_once(fleet: Fleet):
    daemon = serving(fleet, "a").daemons["a"]
    daemon.measures = True
    daemon.models["org/chat"] = HostedModel("org/chat", memory=5 * GIB, owner="default/chat")
    fleet.settle(600, steps=10)
    assert fleet.asked() == ["a: load org/chat"]


def test_two_inferencemodels_with_different_numbers_do_not_tell_the_host_by_turns(fleet: Fleet):
    serving(fleet, "a")
    fleet.model("copy", memory="2Gi")
    fleet.settle(600, steps=10)
    assert fleet.asked() == []
    assert fleet.placements("copy") == {"a": "Ready"}


def test_other_options_move_nothing_on_a_host_that_cannot_be_told_them(fleet: Fleet):
    fleet.host("a", protocol="ollama", capacity={"memory": "8Gi"})
    fleet.model()
    fleet.settle()
    fleet.asked()
    fleet.edit(INFERENCE_MODEL, "chat", options={"contextSize": 8192})
    fleet.settle(60, steps=6)
    assert (fleet.asked(), fleet.endpoints()) == ([], [("10.0.0.1", True)])
    assert fleet.condition("FieldsIgnored")["status"] == "True"
