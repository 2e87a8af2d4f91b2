"""The lives of replicas, from the first host to the last unload, with hosts that fail, die, return and drain."""

from __future__ import annotations

import pytest

from modelyard.core.checks import Answer
from modelyard.core.hosts import HostedModel, ModelState
from modelyard.core.reasons import Reason
from modelyard.kinds.inferencehost import INFERENCE_HOST
from modelyard.kinds.inferencemodel import INFERENCE_MODEL
from tests.kinds.inferencemodel.fleet import GIB, Fleet

NO_MEMORY = Answer(False, Reason.INSUFFICIENT_MEMORY, "the host answered with HTTP 507; make room on the host")


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def serving(fleet: Fleet, hosts: str = "ab", **spec: object) -> Fleet:
    """Return the fleet with these hosts and a model that is ready on them."""
    for name in hosts:
        fleet.host(name)
    fleet.model(replicas=spec.pop("replicas", len(hosts)), **spec)
    fleet.settle()
    assert fleet.condition("Ready")["status"] == "True"
    fleet.asked()
    return fleet


def test_a_model_created_before_any_host_has_a_service_and_is_placed_when_the_first_host_comes(fleet: Fleet):
    fleet.model()
    fleet.settle()
    assert fleet.condition("Placed")["reason"] == "InsufficientHosts"
    assert (fleet.status()["readyReplicas"], [key[0].kind for key in fleet.stored]) == (
        0,
        ["InferenceModel", "Service"],
    )
    fleet.host("a")
    fleet.settle()
    assert fleet.condition("Ready")["status"] == "True"
    assert fleet.endpoints() == [("10.0.0.1", True)]


def test_too_few_hosts_place_what_fits_and_say_why(fleet: Fleet):
    fleet.host("a")
    fleet.host("b")
    fleet.host("c", memory=GIB)
    fleet.model(replicas=3)
    fleet.settle()
    assert fleet.status()["readyReplicas"] == 2
    placed = fleet.condition("Placed")
    assert (placed["status"], placed["reason"]) == ("False", "InsufficientMemory")
    assert "2 of 3 replicas have a host; of the other hosts 1 short of memory" in placed["message"]


def test_scaled_to_zero_unloads_all_and_keeps_the_service(fleet: Fleet):
    serving(fleet)
    fleet.edit(INFERENCE_MODEL, "chat", replicas=0)
    fleet.settle()
    assert (fleet.endpoints(), fleet.asked()) == ([("10.0.0.1", False), ("10.0.0.2", False)], [])
    fleet.settle(31)
    assert (fleet.endpoints(), fleet.asked()) == ([], ["a: unload org/chat", "b: unload org/chat"])
    assert fleet.status()["pendingUnloads"] == []
    assert any(resource.kind == "Service" for resource, _ in fleet.stored)


def test_nothing_is_written_and_asked_at_rest(fleet: Fleet):
    serving(fleet)
    writes = fleet.writes
    fleet.settle(600, steps=100)
    assert (fleet.writes, fleet.asked()) == (writes, [])


def test_a_host_whose_label_goes_is_left_once_another_one_serves(fleet: Fleet):
    for name in "abc":
        fleet.host(name, {"gpu": "yes"})
    fleet.model(replicas=2, hostSelector={"matchLabels": {"gpu": "yes"}})
    fleet.settle()
    left, stayed = sorted(fleet.placements())
    spare = next(iter({"a", "b", "c"} - {left, stayed}))
    fleet.daemons[spare].lands = ModelState.LOADING
    fleet.edit(INFERENCE_HOST, left, labels={})
    fleet.settle()
    assert fleet.placements() == {left: "Ready", stayed: "Ready", spare: "Loading"}
    fleet.daemons[spare].shows("org/chat", ModelState.READY)
    fleet.settle()
    assert fleet.placements() == {stayed: "Ready", spare: "Ready"}
    fleet.settle(31)
    assert "org/chat" not in fleet.daemons[left].models


def test_a_load_that_times_out_although_it_was_accepted_is_found_and_not_repeated(fleet: Fleet):
    daemon = fleet.host("a")
    daemon.refusal = Answer(False, Reason.NO_ANSWER, "the host did not answer; check that it runs")
    fleet.model()
    fleet.settle()
    assert (fleet.placements(), fleet.asked()) == ({"a": "Failed"}, ["a: load org/chat"])
    daemon.shows("org/chat", ModelState.LOADING)
    fleet.settle(2)
    assert fleet.placements() == {"a": "Loading"}
    daemon.shows("org/chat", ModelState.READY)
    fleet.settle(2)
    assert (fleet.placements(), fleet.asked(), fleet.status()["loadFailures"]) == ({"a": "Ready"}, [], [])


def test_a_long_load_with_progress_goes_on_and_a_stalled_one_fails(fleet: Fleet):
    daemon = fleet.host("a")
    daemon.lands = ModelState.DOWNLOADING
    fleet.model()
    fleet.settle()
    for percent in range(5, 60, 5):
        daemon.shows("org/chat", ModelState.DOWNLOADING, percent)
        fleet.settle(1200)
        assert fleet.placements() == {"a": "Downloading"}
    fleet.settle(1900)
    assert fleet.status()["loadFailures"][0]["error"] == "the load makes no progress"


def test_a_daemon_that_restarts_empty_loses_its_endpoint_at_once_and_loads_again(fleet: Fleet):
    serving(fleet)
    fleet.daemons["a"].lands = ModelState.LOADING
    fleet.daemons["a"].models.clear()
    fleet.settle(5)
    assert fleet.endpoints() == [("10.0.0.2", True)]
    assert fleet.asked() == ["a: load org/chat"]
    fleet.daemons["a"].shows("org/chat", ModelState.READY)
    fleet.settle(5)
    assert fleet.endpoints() == [("10.0.0.1", True), ("10.0.0.2", True)]


def test_a_model_that_a_person_loaded_is_adopted_and_never_unloaded(fleet: Fleet):
    daemon = fleet.host("a")
    daemon.models["org/chat"] = HostedModel("org/chat", memory=4 * GIB)
    fleet.model()
    fleet.settle()
    assert fleet.status()["readyReplicas"] == 1
    fleet.edit(INFERENCE_MODEL, "chat", replicas=0)
    fleet.settle(60, steps=4)
    assert (fleet.asked(), fleet.endpoints()) == ([], [])


def test_the_same_model_of_two_objects_is_unloaded_with_the_last_of_them(fleet: Fleet):
    fleet.host("a")
    fleet.model("one")
    fleet.settle()
    fleet.model("two")
    fleet.settle()
    assert fleet.asked() == ["a: load org/chat"]
    fleet.delete(INFERENCE_MODEL, "one")
    fleet.settle(31)
    assert (fleet.exists("one"), fleet.asked()) == (False, [])
    fleet.delete(INFERENCE_MODEL, "two")
    fleet.settle(0)
    fleet.settle(31)
    assert (fleet.exists("two"), fleet.asked()) == (False, ["a: unload org/chat"])


def test_a_host_that_is_gone_for_a_short_time_loses_its_endpoint_and_nothing_moves(fleet: Fleet):
    serving(fleet, "ab")
    fleet.host("c")
    fleet.daemons["a"].up = False
    fleet.settle(30, steps=6)
    assert fleet.endpoints() == [("10.0.0.2", True)]
    fleet.daemons["a"].up = True
    fleet.settle(5)
    assert (fleet.endpoints(), fleet.asked()) == ([("10.0.0.1", True), ("10.0.0.2", True)], [])


def test_a_host_that_stays_away_is_replaced_and_its_surplus_is_unloaded_once_when_it_returns(fleet: Fleet):
    serving(fleet, "ab")
    fleet.host("c")
    fleet.daemons["a"].up = False
    fleet.settle(300, steps=60)
    assert (fleet.placements(), fleet.asked()) == ({"b": "Ready", "c": "Ready"}, ["c: load org/chat"])
    assert [one["host"] for one in fleet.status()["pendingUnloads"]] == ["a"]
    fleet.daemons["a"].up = True
    fleet.settle(120, steps=12)
    assert (fleet.placements(), fleet.asked()) == ({"b": "Ready", "c": "Ready"}, ["a: unload org/chat"])


def test_a_replica_that_no_other_host_can_take_over_says_so(fleet: Fleet):
    serving(fleet, "a")
    fleet.host("b", memory=2 * GIB)
    fleet.daemons["a"].up = False
    fleet.settle(30, steps=6)
    assert fleet.condition("Ready")["message"] == (
        "0 of 1 replicas are ready; a: the host does not answer; check the host; "
        "after spec.placement.failoverAfterSeconds another takes over"
    )
    fleet.settle(90, steps=6)
    assert fleet.condition("Ready")["message"] == (
        "0 of 1 replicas are ready; a: the host does not answer; of the other hosts 1 short of memory; check the host"
    )
    fleet.vanish(INFERENCE_HOST, "b")
    fleet.settle(5)
    assert fleet.condition("Ready")["message"] == (
        "0 of 1 replicas are ready; a: the host does not answer; there is no other host; check the host"
    )


def test_when_all_hosts_are_silent_the_endpoints_stay_for_a_while_and_nothing_is_loaded_anew(fleet: Fleet):
    serving(fleet, "ab")
    fleet.host("c")
    fleet.settle()
    for daemon in fleet.daemons.values():
        daemon.up = False
    fleet.settle(100, steps=20)
    assert fleet.endpoints() == [("10.0.0.1", True), ("10.0.0.2", True)]
    assert fleet.condition("ProbeSuspect")["status"] == "True"
    assert fleet.condition("Ready")["status"] == "Unknown"
    fleet.settle(100, steps=20)
    assert fleet.endpoints() == []
    assert fleet.condition("Ready")["status"] == "False"
    for daemon in reversed(fleet.daemons.values()):
        daemon.up = True
        fleet.settle(10, steps=2)
    assert fleet.endpoints() == [("10.0.0.1", True), ("10.0.0.2", True)]
    assert fleet.asked() == []
    assert fleet.condition("ProbeSuspect") == {}


def test_an_object_that_is_deleted_while_its_host_is_down_waits_five_minutes_and_no_longer(fleet: Fleet):
    serving(fleet, "a")
    fleet.daemons["a"].up = False
    fleet.settle(5)
    fleet.delete(INFERENCE_MODEL, "chat")
    fleet.settle()
    fleet.settle(200, steps=4)
    assert "a does not answer" in fleet.condition("Ready")["message"]
    fleet.settle(101)
    assert not fleet.exists()


def test_an_object_that_is_deleted_unloads_when_its_host_returns_in_time(fleet: Fleet):
    serving(fleet, "a")
    fleet.daemons["a"].up = False
    fleet.settle(5)
    fleet.delete(INFERENCE_MODEL, "chat")
    fleet.settle(60)
    fleet.daemons["a"].up = True
    fleet.settle(5)
    assert (fleet.exists(), fleet.asked()) == (False, ["a: unload org/chat"])


def test_an_object_whose_host_object_is_gone_is_deleted_at_once(fleet: Fleet):
    serving(fleet, "a")
    fleet.daemons["a"].up = False
    fleet.vanish(INFERENCE_HOST, "a")
    fleet.delete(INFERENCE_MODEL, "chat")
    fleet.settle()
    assert not fleet.exists()


def test_a_host_that_is_deleted_while_it_serves_goes_after_its_replicas(fleet: Fleet):
    serving(fleet, "a")
    spare = fleet.host("b")
    spare.lands = ModelState.LOADING
    fleet.delete(INFERENCE_HOST, "a")
    fleet.settle()
    assert fleet.endpoints() == [("10.0.0.1", True)]
    spare.shows("org/chat", ModelState.READY)
    fleet.settle(5)
    assert fleet.endpoints() == [("10.0.0.1", False), ("10.0.0.2", True)]
    assert fleet.exists("a", INFERENCE_HOST)
    fleet.settle(31)
    assert fleet.endpoints() == [("10.0.0.2", True)]
    assert (fleet.exists("a", INFERENCE_HOST), fleet.daemons["a"].models) == (False, {})


def test_a_host_that_no_model_can_leave_is_released_after_five_minutes(fleet: Fleet):
    serving(fleet, "a")
    fleet.delete(INFERENCE_HOST, "a")
    fleet.settle()
    fleet.settle(290)
    assert fleet.condition("DrainBlocked")["reason"] == "DrainBlocked"
    assert "still here: chat" in fleet.condition("Schedulable", "a", INFERENCE_HOST)["message"]
    fleet.settle(11)
    assert not fleet.exists("a", INFERENCE_HOST)
    assert fleet.endpoints() == []


def test_a_cordoned_host_keeps_what_it_has_and_gets_nothing_new(fleet: Fleet):
    serving(fleet, "a")
    fleet.edit(INFERENCE_HOST, "a", unschedulable=True)
    fleet.settle()
    fleet.model("other", model="org/other")
    fleet.settle()
    assert fleet.placements() == {"a": "Ready"}
    assert "1 cordoned or draining" in fleet.condition("Placed", "other")["message"]


def test_a_drain_without_room_elsewhere_keeps_the_last_replica_and_says_so(fleet: Fleet):
    serving(fleet, "a")
    fleet.host("b", memory=GIB)
    fleet.edit(INFERENCE_HOST, "a", drain=True)
    fleet.settle(60, steps=6)
    assert fleet.endpoints() == [("10.0.0.1", True)]
    assert fleet.condition("DrainBlocked")["status"] == "True"
    assert fleet.condition("Ready")["status"] == "True"


def test_two_models_never_get_the_same_memory(fleet: Fleet):
    fleet.host("a", memory=24 * GIB).lands = ModelState.LOADING
    fleet.model("one", model="org/one", memory="20Gi")
    fleet.model("two", model="org/two", memory="20Gi")
    fleet.settle()
    assert (len(fleet.placements("one")), len(fleet.placements("two"))) == (1, 0)
    assert fleet.asked() == ["a: load org/one"]


def test_memory_that_one_model_frees_goes_to_the_next(fleet: Fleet):
    fleet.host("a", memory=24 * GIB)
    fleet.model("one", model="org/one", memory="20Gi")
    fleet.model("two", model="org/two", memory="20Gi")
    fleet.settle()
    fleet.delete(INFERENCE_MODEL, "one")
    fleet.settle()
    assert fleet.placements("two") == {}
    fleet.settle(31)
    assert fleet.placements("two") == {"a": "Ready"}


def test_a_model_that_is_too_big_is_never_asked_for(fleet: Fleet):
    fleet.host("a")
    fleet.model(memory="64Gi")
    fleet.settle()
    assert (fleet.condition("Placed")["reason"], fleet.asked()) == ("InsufficientMemory", [])
    assert "1 short of memory; a replica takes 65536Mi" in fleet.condition("Placed")["message"]


def test_a_load_that_fails_is_repeated_ever_more_slowly_and_then_tried_elsewhere(fleet: Fleet):
    for name in "ab":
        fleet.host(name).refusal = NO_MEMORY
    fleet.model(replicas=1)
    fleet.settle()
    (first,) = fleet.placements()
    other = "b" if first == "a" else "a"
    fleet.daemons[other].refusal = None
    assert fleet.condition("LoadFailed")["reason"] == "LoadFailed"
    fleet.settle(9)
    assert fleet.asked() == [f"{first}: load org/chat"]
    fleet.settle(2)
    fleet.settle(19)
    assert fleet.asked() == [f"{first}: load org/chat"]
    fleet.settle(2)
    assert fleet.placements() == {other: "Ready"}
    assert fleet.daemons[first].asked == ["load org/chat", "unload org/chat"]
    fleet.settle(300, steps=30)
    assert fleet.placements() == {other: "Ready"}


def test_a_host_that_asks_to_be_left_alone_is(fleet: Fleet):
    daemon = fleet.host("a")
    daemon.refusal = Answer(False, Reason.LOAD_FAILED, "the host answered with HTTP 429; later", {"retryAfter": 100.0})
    fleet.model()
    fleet.settle()
    fleet.settle(95, steps=10)
    assert fleet.asked() == ["a: load org/chat"]
    daemon.refusal = None
    fleet.settle(10)
    assert fleet.placements() == {"a": "Ready"}


def test_a_failure_that_the_host_still_lists_from_before_is_not_counted(fleet: Fleet):
    daemon = fleet.host("a")
    daemon.lands = None
    daemon.shows("org/chat", ModelState.FAILED, error="no such file")
    fleet.model()
    fleet.settle(5)
    assert (fleet.placements(), fleet.status()["loadFailures"]) == ({"a": "Pending"}, [])
    daemon.shows("org/chat", ModelState.LOADING)
    fleet.settle(5)
    daemon.shows("org/chat", ModelState.FAILED, error="out of memory")
    fleet.settle(5)
    assert fleet.status()["loadFailures"][0]["error"] == "out of memory"


def test_a_host_that_accepts_a_model_and_never_lists_it_is_asked_again(fleet: Fleet):
    daemon = fleet.host("a")
    daemon.lands = None
    fleet.model()
    fleet.settle()
    fleet.settle(31)
    assert fleet.placements() == {"a": "Failed"}
    daemon.lands = ModelState.READY
    fleet.settle(11)
    assert fleet.placements() == {"a": "Ready"}
    assert fleet.asked() == ["a: load org/chat", "a: load org/chat"]


def test_another_model_is_served_without_a_gap_where_both_fit(fleet: Fleet):
    serving(fleet, "a")
    fleet.daemons["a"].lands = ModelState.LOADING
    fleet.edit(INFERENCE_MODEL, "chat", model="org/next")
    fleet.settle()
    assert fleet.endpoints() == [("10.0.0.1", True)]
    assert fleet.condition("Ready")["status"] == "False"
    fleet.daemons["a"].shows("org/next", ModelState.READY)
    fleet.settle()
    assert fleet.endpoints() == [("10.0.0.1", True)]
    assert fleet.condition("Ready")["status"] == "True"
    fleet.settle(31)
    assert sorted(fleet.daemons["a"].models) == ["org/next"]


def test_another_model_takes_the_place_of_the_old_one_host_by_host_where_only_one_fits(fleet: Fleet):
    for name in "ab":
        fleet.host(name, memory=6 * GIB)
    fleet.model(replicas=2)
    fleet.settle()
    fleet.asked()
    fleet.edit(INFERENCE_MODEL, "chat", model="org/next")
    fleet.settle()
    assert [ready for _, ready in fleet.endpoints()] == [False, True]
    fleet.settle(31)
    assert fleet.asked() == ["a: unload org/chat", "a: load org/next"]
    fleet.settle(31)
    fleet.settle(31)
    assert fleet.asked() == ["b: unload org/chat", "b: load org/next"]
    assert fleet.condition("Ready")["status"] == "True"


def test_a_replica_that_is_wanted_again_before_it_is_unloaded_stays(fleet: Fleet):
    serving(fleet, "a")
    fleet.edit(INFERENCE_MODEL, "chat", replicas=0)
    fleet.settle(10)
    fleet.edit(INFERENCE_MODEL, "chat", replicas=1)
    fleet.settle(60, steps=6)
    assert (fleet.asked(), fleet.endpoints()) == ([], [("10.0.0.1", True)])


def test_memory_that_a_host_reports_is_reserved_where_the_user_says_nothing(fleet: Fleet):
    daemon = fleet.host("a")
    fleet.model(memory="")
    fleet.settle()
    daemon.models["org/chat"] = HostedModel("org/chat", memory=3 * GIB)
    fleet.settle(5)
    assert fleet.status()["assignments"][0]["memory"] == 3 * GIB
    assert fleet.status("a", INFERENCE_HOST)["memory"]["allocated"] == "3072Mi"


def test_a_clock_that_is_set_back_breaks_nothing(fleet: Fleet):
    serving(fleet, "ab")
    fleet.daemons["a"].up = False
    fleet.settle(5)
    fleet.settle(-3600)
    fleet.daemons["a"].up = True
    fleet.settle(5)
    assert fleet.status()["readyReplicas"] == 2


def test_two_hosts_with_the_same_address_are_one(fleet: Fleet):
    fleet.host("a")
    fleet.settle(1)
    fleet.host("b").address = fleet.daemons["a"].address
    fleet.model(replicas=2)
    fleet.settle()
    assert fleet.condition("Schedulable", "b", INFERENCE_HOST)["reason"] == "DuplicateEndpoint"
    assert (fleet.placements(), fleet.endpoints()) == ({"a": "Ready"}, [("10.0.0.1", True)])


def test_a_host_at_loopback_holds_up_no_other(fleet: Fleet):
    fleet.host("a").address = "127.0.0.1"
    fleet.host("b")
    fleet.model(replicas=2)
    fleet.settle()
    assert fleet.condition("Schedulable", "a", INFERENCE_HOST)["reason"] == "AddressNotRoutable"
    assert fleet.endpoints() == [("10.0.0.2", True)]
    assert "1 without an address for pods" in fleet.condition("Placed")["message"]


def test_an_address_that_changes_is_published_and_the_old_one_is_withdrawn(fleet: Fleet):
    serving(fleet, "a")
    fleet.daemons["a"].address = "10.0.0.77"
    fleet.settle(5)
    assert fleet.endpoints() == [("10.0.0.77", True)]


def test_hosts_on_two_ports_and_of_two_families_get_a_slice_each(fleet: Fleet):
    fleet.host("a")
    fleet.host("b", endpoint="http://b.example:8080")
    fleet.host("c").address = "fd00::7"
    fleet.model(replicas=3)
    fleet.settle()
    slices = {key.name for resource, key in fleet.stored if resource.kind == "EndpointSlice"}
    assert slices == {"chat-ipv4-11434", "chat-ipv4-8080", "chat-ipv6-11434"}
    assert fleet.status()["readyReplicas"] == 3


def test_a_host_that_refuses_the_token_is_not_called_silent(fleet: Fleet):
    fleet.host("a")
    fleet.host("b")
    fleet.model()
    fleet.settle()
    (first,) = fleet.placements()
    fleet.daemons[first].lets_in = False
    fleet.settle(10)
    said = fleet.condition("Ready")
    assert (said["reason"], fleet.placements()) == ("Unauthorized", {first: "Unreachable"})
    assert "does not let the operator in; check spec.auth" in said["message"]
    fleet.daemons[first].lets_in = True
    fleet.settle(10)
    assert fleet.condition("Ready")["status"] == "True"


def test_of_two_inferencehosts_of_one_machine_the_one_that_goes_unloads_nothing(fleet: Fleet):
    fleet.host("studio")
    fleet.model()
    fleet.settle()
    # Of the same second, so that its name makes it the earlier of the two.
    fleet.host("mac", endpoint="http://studio.example:11434")
    fleet.settle(5)
    assert fleet.condition("Schedulable", "studio", INFERENCE_HOST)["reason"] == "DuplicateEndpoint"
    fleet.delete(INFERENCE_HOST, "studio")
    fleet.settle(60, steps=12)
    assert not fleet.exists("studio", INFERENCE_HOST)
    assert (fleet.placements(), fleet.endpoints()) == ({"mac": "Ready"}, [("10.0.0.1", True)])
    assert fleet.asked() == ["studio: load org/chat"]
