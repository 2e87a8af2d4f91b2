"""Odd hosts, odd answers and changes of leader: each leads to a state that is defined."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.core.hosts import HostAddress, HostedModel, HostProbe, ModelState
from modelyard.core.resources import Key
from modelyard.kinds.inferencehost import INFERENCE_HOST
from modelyard.kinds.inferencehost.api import InferenceHostSpec, is_routable
from modelyard.kinds.inferencehost.reads import Claim, claims
from modelyard.kinds.inferencemodel import INFERENCE_MODEL
from modelyard.net.hosts.http import Said
from modelyard.net.hosts.verdicts import load_verdict
from modelyard.net.hysteresis import QUIET_SECONDS, Hysteresis
from tests.kinds.inferencemodel.fleet import GIB, NO_ANSWER, Fleet

ALREADY, BUSY = (f'{{"error": {{"code": "{code}", "message": "x"}}}}'.encode() for code in ("AlreadyLoaded", "Busy"))


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        pytest.param({}, "abc", id="an empty selector matches every host"),
        pytest.param({"matchLabels": {"gpu": "m3"}}, "a", id="a label"),
        pytest.param({"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["m3", "m4"]}]}, "ab", id="In"),
        pytest.param({"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["m3"]}]}, "bc", id="NotIn"),
        pytest.param({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, "ab", id="Exists"),
        pytest.param({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}, "c", id="DoesNotExist"),
    ],
)
def test_a_selector_chooses_hosts_by_their_labels(fleet: Fleet, selector: dict[str, Any], chosen: str):
    for name, labels in (("a", {"gpu": "m3"}), ("b", {"gpu": "m4"}), ("c", {})):
        fleet.host(name, labels)
    fleet.model(replicas=3, hostSelector=selector)
    fleet.settle()
    assert "".join(sorted(fleet.placements())) == chosen


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (Said(200, b"{}"), "Ready"),
        (Said(201, b"{}"), "Ready"),
        (Said(202, b'{"state": "loading"}'), "Ready"),
        (Said(204), "Ready"),
        (Said(409, ALREADY), "Ready"),
        (Said(409, BUSY), "Failed"),
        *((Said(status), "Failed") for status in (302, 400, 401, 403, 404, 413, 422, 500, 503, 507)),
        (Said(429, retry_after=17.0), "Failed"),
        (Said(503, b"<html>"), "Failed"),
    ],
    ids=lambda one: f"{one.status} {one.text[:12].decode()}" if isinstance(one, Said) else one,
)
def test_every_answer_to_a_load_is_a_state_of_the_replica_with_its_reason(fleet: Fleet, said: Said, state: str):
    verdict = load_verdict(said)
    fleet.host("a").refusal = None if verdict.ok else verdict
    fleet.model()
    fleet.settle()
    assert fleet.placements() == {"a": state}
    assert fleet.condition("Ready")["status"] == ("True" if verdict.ok else "False")
    assert verdict.ok or verdict.message in fleet.condition("LoadFailed")["message"]
    assert [one["wait"] for one in fleet.status()["loadFailures"]] == ([] if verdict.ok else [int(said.retry_after)])


def test_a_new_leader_in_the_middle_of_a_load_neither_repeats_it_nor_gives_it_more_time(fleet: Fleet):
    fleet.host("a").lands = ModelState.LOADING
    fleet.model()
    fleet.settle()
    assert fleet.asked() == ["a: load org/chat"]
    fleet.settle(1000)
    fleet.change_leader()
    fleet.settle(799)
    assert (fleet.placements(), fleet.asked()) == ({"a": "Loading"}, [])
    fleet.settle(2)
    assert fleet.status()["loadFailures"][0]["error"] == "the load makes no progress"


def test_a_new_leader_asks_again_for_what_the_last_one_may_not_have_sent(fleet: Fleet):
    daemon = fleet.host("a")
    daemon.lands = None
    fleet.model()
    fleet.settle()
    fleet.change_leader()
    daemon.lands = ModelState.READY
    fleet.settle()
    assert (fleet.asked(), fleet.placements()) == (["a: load org/chat"] * 2, {"a": "Ready"})


@pytest.mark.parametrize("seconds", [0, 10, 29], ids="after {} s".format)
def test_an_unload_outlives_a_change_of_leader_and_is_made_once(fleet: Fleet, seconds: int):
    for name in "ab":
        fleet.host(name)
    fleet.model(replicas=2)
    fleet.settle()
    fleet.asked()
    fleet.edit(INFERENCE_MODEL, "chat", replicas=1)
    fleet.settle(seconds)
    fleet.change_leader()
    fleet.settle(60, steps=6)
    (kept,) = fleet.placements()
    assert fleet.asked() == [f"{'b' if kept == 'a' else 'a'}: unload org/chat"]
    fleet.change_leader()
    fleet.settle(60, steps=6)
    assert fleet.asked() == []


def test_a_new_leader_finishes_the_deletion_of_an_object(fleet: Fleet):
    fleet.host("a")
    fleet.model()
    fleet.settle()
    fleet.delete(INFERENCE_MODEL, "chat")
    fleet.settle(10)
    fleet.change_leader()
    fleet.settle(31)
    assert (fleet.exists(), fleet.asked()) == (False, ["a: load org/chat", "a: unload org/chat"])


def test_a_host_that_flaps_every_five_seconds_changes_endpoints_rarely_and_causes_no_load(fleet: Fleet):
    for name in "abc":
        fleet.host(name)
    fleet.model(replicas=3)
    fleet.settle()
    fleet.asked()
    fleet.host("spare")
    good, every = fleet.daemons["a"].probe(), HostProbe(HostAddress("default", "")).every
    belief, passed, seen = Hysteresis(good), 0.0, [fleet.endpoints()]
    while passed < 600:
        belief = belief.after(good if passed % 10 < 5 else NO_ANSWER, passed)
        fleet.daemons["a"].up = belief.answer is good
        pause = belief.pause(every, passed, 0.5)
        fleet.settle(pause)
        passed += pause
        seen += [fleet.endpoints()] if fleet.endpoints() != seen[-1] else []
    assert fleet.asked() == []
    assert 1 < len(seen) <= 600 / QUIET_SECONDS + 1


def test_a_model_wakes_the_hosts_that_it_is_on_and_no_others(fleet: Fleet):
    for name in "ab":
        fleet.host(name)
    fleet.model()
    fleet.settle()
    (placed,) = fleet.placements()
    model = fleet.stored[INFERENCE_MODEL.resource, Key("default", "chat")]
    facets = {name: claims(Key("default", name)).facet(model) for name in "ab"}
    assert facets == dict.fromkeys("ab") | {placed: (Claim("org/chat", 4 * GIB),)}


@pytest.mark.parametrize(
    "model",
    ["llama3.2", "llama3.2:latest", "Llama3.2", "library/llama3.2", "registry.ollama.ai/library/llama3.2:latest"],
)
def test_a_name_of_ollama_may_be_written_in_every_way_that_ollama_takes(fleet: Fleet, model: str):
    daemon = fleet.host("a", protocol="ollama", capacity={"memory": "6Gi"})
    daemon.lands = None
    fleet.model(model=model)
    fleet.settle()
    assert fleet.asked() == [f"a: load {model}"]
    daemon.shows("llama3.2", ModelState.READY)
    fleet.settle(5)
    assert (fleet.placements(), fleet.asked()) == ({"a": "Ready"}, [])
    fleet.settle(600, steps=10)
    assert (fleet.placements(), fleet.asked()) == ({"a": "Ready"}, [])


def test_a_model_of_ollama_is_counted_once_however_it_is_written(fleet: Fleet):
    fleet.host("a", protocol="ollama", capacity={"memory": "9Gi"}).lands = None
    fleet.model("one", model="llama3.2:latest")
    fleet.settle()
    fleet.daemons["a"].models["llama3.2"] = HostedModel("llama3.2", memory=4 * GIB)
    fleet.model("two", model="qwen3")
    fleet.settle(5)
    assert fleet.placements("two") == {"a": "Pending"}


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "0.0.0.0", "::", "::1", "169.254.3.4", "fe80::1"])
def test_an_address_that_no_slice_may_hold_is_not_published_and_holds_up_no_other(fleet: Fleet, address: str):
    fleet.host("a").address = address
    fleet.host("b")
    fleet.model(replicas=2)
    fleet.settle()
    assert fleet.condition("Schedulable", "a", INFERENCE_HOST)["reason"] == "AddressNotRoutable"
    assert fleet.endpoints() == [("10.0.0.2", True)]


@pytest.mark.parametrize("address", ["10.0.0.1", "100.64.0.7", "8.8.8.8", "fd00::7", "2001:4860::8888"])
def test_private_addresses_and_those_of_tailnets_may_be_published(address: str):
    assert is_routable(address)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://mac.example", "http://mac.example:11434"),
        ("http://mac.example/", "http://mac.example:11434"),
        ("https://mac.example:8443/", "https://mac.example:8443"),
        ("http://Mac.Example:80", "http://mac.example:80"),
        ("http://[fd00::7]", "http://[fd00::7]:11434"),
    ],
)
def test_an_endpoint_without_a_port_or_with_a_slash_is_completed(endpoint: str, url: str):
    assert InferenceHostSpec(endpoint).url == url
